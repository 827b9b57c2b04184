// The few ways in which the outside world fails, told apart by what to do.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

namespace dlock {

// A store, or a file the user named, failed us. The message is one line that can be
// shown: lower case, no full stop, what failed and why.
class Failure : public std::runtime_error {
 public:
  enum class Kind {
    unreachable,    // cannot be reached, or answers nonsense; may pass (69)
    rejected,       // login, rights, a directory that is not ours: stop (77)
    misconfigured,  // wrong in itself until somebody changes it: stop (78)
    unsupported,    // this kind of store cannot do it (78)
    exhausted,      // this process or machine has none left (125)
    interrupted,    // given up because the caller wants to stop
  };

  Failure(Kind kind, const std::string& message)
      : std::runtime_error(message), kind_(kind) {}

  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

// The failure that `error_number` from a system call on a store means, with
// "`what`: `reason`" as message.
Failure failure_of(int error_number, const std::string& what);

// The same of a file that the user named: what is the matter with it is misconfigured.
Failure failure_of_named(int error_number, const std::string& what);

// The same where something was to be watched, of which a user may have only so many:
// ENOSPC does not mean a disk then, and EPERM is no matter of the store's, but of a
// filter of system calls.
Failure failure_to_watch(int error_number, const std::string& what);

// What the exception that is being handled means: also those of the event loop and of
// memory where there is none left. Nothing if it is a bug.
std::optional<Failure> caught_failure();

}  // namespace dlock
