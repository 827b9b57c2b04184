// The kinds of failure of the outside world, told apart by how to handle them.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dlock {

// A failure of a store, or of a file that the user named. The message is one line to show
// to the user: lower case, no full stop, what failed and why.
class Failure : public std::runtime_error {
 public:
  enum class Kind {
    unreachable,    // cannot be reached, or replies nonsense; may be temporary (69)
    rejected,       // login, ACL, a directory that is not ours: stop (77)
    misconfigured,  // wrong until a user changes it: stop (78)
    unsupported,    // this kind of store cannot do it (78)
    exhausted,      // this process or machine is out of a resource (125)
    interrupted,    // stopped because the caller wants to stop
  };

  Failure(Kind kind, const std::string& message)
      : std::runtime_error(message), kind_(kind) {}

  static Failure unreachable(const std::string& why) { return {Kind::unreachable, why}; }
  static Failure rejected(const std::string& why) { return {Kind::rejected, why}; }
  static Failure misconfigured(const std::string& why) {
    return {Kind::misconfigured, why};
  }
  static Failure unsupported(const std::string& why) { return {Kind::unsupported, why}; }
  static Failure exhausted(const std::string& why) { return {Kind::exhausted, why}; }
  static Failure interrupted(const std::string& why) { return {Kind::interrupted, why}; }

  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

// From now on, messages quote what a server said in its own words, besides what that
// means (--verbose).
void quote_servers();

// Such a quotation as the end of a message: " (TEXT)", or nothing. `text` is printable.
std::string detail(const std::string& text);

// The failure that `error_number` of a system call on a store means, with the message
// "`what`: `reason`".
Failure failure_of(int error_number, const std::string& what);

// The same for a file that the user named: problems with the file itself are
// misconfigured.
Failure failure_of_named(int error_number, const std::string& what);

// Why `call` failed, a system call for which no user needs a right: with ENOSYS and EPERM
// the kernel is too old for it, or a filter of system calls refuses it.
std::string why_failed(int error_number, const std::string& call);

// The failure of such a system call of dlock itself, and not on a store. The number of
// watched files is limited per user: ENOSPC does not mean a full disk then.
Failure failure_of_call(int error_number, const std::string& what,
                        const std::string& call);

// The Failure that the exception being handled stands for, including exceptions of the
// event loop and of memory allocation. Nothing if it is a bug.
std::optional<Failure> caught_failure();

// The values are those of syslog(3), as in sd-daemon(3).
enum class Priority { error = 3, warning = 4, info = 6 };

// Whether JOURNAL_STREAM (systemd.exec(5)) names this file: "DEVICE:INODE", both decimal.
// False for any other text: with a wrong value, lines are plain.
bool names_stream(std::string_view variable, unsigned long long device,
                  unsigned long long inode);

// The prefix of a line of this priority: "<3>" where standard error is a stream of the
// journal, which removes it again, and nothing everywhere else.
std::string line_start(Priority priority);

}  // namespace dlock
