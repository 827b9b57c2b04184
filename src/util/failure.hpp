// The kinds of failure of the outside world, told apart by how to handle them.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

namespace dlock {

// A failure of a store, or of a file that the user named. The message is one line to show
// to the user: lower case, no full stop, what failed and why.
class Failure : public std::runtime_error {
 public:
  enum class Kind {
    unreachable,    // cannot be reached, or replies nonsense; may be temporary (69)
    rejected,       // login, ACL, a directory that is not ours: stop (77)
    misconfigured,  // wrong until somebody changes it: stop (78)
    unsupported,    // this kind of store cannot do it (78)
    exhausted,      // this process or machine is out of a resource (125)
    interrupted,    // stopped because the caller wants to stop
  };

  Failure(Kind kind, const std::string& message)
      : std::runtime_error(message), kind_(kind) {}

  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

// Whether messages quote what a server said in its own words, besides what that means.
// Set once, by --verbose.
void quote_servers(bool wanted);

// Such a quotation as the end of a message: " (TEXT)", or nothing. `text` is printable.
std::string detail(const std::string& text);

// The failure that `error_number` of a system call on a store means, with the message
// "`what`: `reason`".
Failure failure_of(int error_number, const std::string& what);

// The same for a file that the user named: problems with the file itself are
// misconfigured.
Failure failure_of_named(int error_number, const std::string& what);

// The same for watching a descriptor or a file, which is limited per user: ENOSPC does
// not mean a full disk then, and EPERM comes from a system call filter and not from the
// store.
Failure failure_to_watch(int error_number, const std::string& what);

// The Failure that the exception being handled stands for, including exceptions of the
// event loop and of memory allocation. Nothing if it is a bug.
std::optional<Failure> caught_failure();

}  // namespace dlock
