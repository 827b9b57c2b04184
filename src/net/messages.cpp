#include "net/messages.hpp"

#include <cstring>

namespace dlock::net {

std::string with_small_letter(std::string reason) {
  const auto is_between = [](char c, char first, char last) {
    return c >= first && c <= last;
  };
  // Abbreviations keep their capitals: "RPC struct is bad".
  if (reason.size() > 1 && is_between(reason[0], 'A', 'Z') &&
      !is_between(reason[1], 'A', 'Z')) {
    reason[0] = static_cast<char>(reason[0] - 'A' + 'a');
  }
  return reason;
}

std::string reason_of(int error_number) {
  return with_small_letter(std::strerror(error_number));
}

Failure cannot_reach(const std::string& server, const std::string& why) {
  return Failure(Failure::Kind::unreachable, "cannot reach " + server + ": " + why);
}

}  // namespace dlock::net
