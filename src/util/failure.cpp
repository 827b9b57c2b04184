#include "util/failure.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/system/system_error.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

namespace dlock {
namespace {

bool quotes_servers = false;

}  // namespace

void quote_servers() { quotes_servers = true; }

std::string detail(const std::string& text) {
  return quotes_servers ? " (" + text + ")" : "";
}

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
      case EINTR:
      case EBUSY:
      case ETXTBSY:
      // A file system that depends on another program or machine.
      case ESTALE:
      case ENOTCONN:
      case ECONNABORTED:
      case ETIMEDOUT: return Failure::Kind::unreachable;
      default: return Failure::Kind::misconfigured;
    }
  }();
  std::string why = std::strerror(error_number);
  if (error_number == EFBIG) why += " (see ulimit -f)";
  if (error_number == ENXIO) why += " (a FIFO that no one reads?)";
  return Failure(kind, what + ": " + why);
}

Failure failure_of_named(int error_number, const std::string& what) {
  auto failure = failure_of(error_number, what);
  // EAGAIN: another program has a lease on the file (F_SETLEASE).
  const bool is_lack =
      failure.kind() == Failure::Kind::exhausted && error_number != EAGAIN;
  return is_lack ? failure : Failure::misconfigured(failure.what());
}

std::string why_failed(int error_number, const std::string& call) {
  if (error_number != ENOSYS && error_number != EPERM) return std::strerror(error_number);
  return "the system call " + call +
         " is missing: Linux is older than 5.3, or a filter (seccomp) or an emulator "
         "refuses the call";
}

Failure failure_of_call(int error_number, const std::string& what,
                        const std::string& call) {
  if (error_number == ENOSPC) {
    return Failure::exhausted(what + ": too many watches");
  }
  const auto kind = failure_of(error_number, what).kind();
  const bool is_missing = error_number == ENOSYS || kind == Failure::Kind::rejected;
  return Failure(is_missing ? Failure::Kind::exhausted : kind,
                 what + ": " + why_failed(error_number, call));
}

std::optional<Failure> caught_failure() {
  try {
    throw;
  } catch (const Failure& failure) {
    return failure;
  } catch (const std::bad_alloc&) {
    return Failure::exhausted("out of memory");
  } catch (const boost::system::system_error& error) {
    // Asio throws while it creates its own descriptors.
    auto failure =
        failure_of_call(error.code().value(), "cannot wait for events", "epoll_create1");
    if (failure.kind() == Failure::Kind::exhausted) return failure;
  } catch (...) {
    // A bug.
  }
  return std::nullopt;
}

bool names_stream(std::string_view variable, unsigned long long device,
                  unsigned long long inode) {
  return variable == std::to_string(device) + ":" + std::to_string(inode);
}

std::string line_start(Priority priority) {
  // Every process of a service inherits the variable, even if its standard error is
  // redirected; so the variable alone proves nothing.
  const char* variable = std::getenv("JOURNAL_STREAM");
  if (variable == nullptr) return "";
  struct stat stream {};
  if (::fstat(STDERR_FILENO, &stream) != 0 ||
      !names_stream(variable, stream.st_dev, stream.st_ino)) {
    return "";
  }
  return "<" + std::to_string(static_cast<int>(priority)) + ">";
}

}  // namespace dlock
