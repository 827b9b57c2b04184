#include "supervise/guardian_owner.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace dlock {

bool GuardianOwner::lives() const {
  char word = 0;
  const auto size = ::recv(channel_, &word, 1, MSG_PEEK | MSG_DONTWAIT);
  const bool is_closed = size == 0 || (size < 0 && errno == ECONNRESET);
  return !is_closed && ::getppid() == dlock_;
}

std::optional<std::uint8_t> GuardianOwner::next_message() {
  if (is_gone_) return std::nullopt;
  const bool has_parent = ::getppid() == dlock_;
  std::uint8_t word = 0;
  const auto size = ::recv(channel_, &word, 1, MSG_DONTWAIT);
  if (size == 1) return word;
  // Any other error means that there is no message, or for example no memory, and not
  // that dlock is gone.
  is_gone_ = size == 0 || errno == ECONNRESET || !has_parent;
  return std::nullopt;
}

void GuardianOwner::notify() const {
  if (!is_gone_) ::send(channel_, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace dlock
