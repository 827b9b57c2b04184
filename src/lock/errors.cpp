#include "lock/errors.hpp"

#include <cerrno>
#include <cstring>

namespace dlock {

Failure failure_of(int error_number, const std::string& what) {
  const auto kind = [&] {
    switch (error_number) {
      case EACCES:
      case EPERM: return Failure::Kind::rejected;
      case EMFILE:
      case ENFILE:
      case ENOMEM:
      case EAGAIN: return Failure::Kind::exhausted;
      case ENOSPC:
      case EDQUOT:
      case EFBIG:
      case EIO:
      case EINTR: return Failure::Kind::unreachable;
      default: return Failure::Kind::misconfigured;
    }
  }();
  return Failure(kind, what + ": " + std::strerror(error_number));
}

}  // namespace dlock
