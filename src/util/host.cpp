#include "util/host.hpp"

#include <unistd.h>

namespace dlock {

const std::string& host_name() {
  static const std::string name = [] {
    char text[256] = "";
    ::gethostname(text, sizeof text - 1);
    return std::string(text);
  }();
  return name;
}

}  // namespace dlock
