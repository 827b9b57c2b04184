#include "store/redis/target.hpp"

#include "util/text.hpp"

namespace dlock::redis {

std::string Target::shown() const {
  if (!path.empty()) return printable(path, 200);
  const auto name = printable(host, 200);
  const bool has_colons = name.find(':') != std::string::npos;
  return (has_colons ? "[" + name + "]" : name) + ":" + std::to_string(port);
}

}  // namespace dlock::redis
