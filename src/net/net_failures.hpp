// The failures of connections, and the words for them.
#pragma once

#include <string>
#include <string_view>

#include "util/failure.hpp"

namespace dlock::net {

// A reason from a library ("Connection refused") in the form used at the end of our
// messages: with a small first letter.
std::string lower_first(std::string reason);

// The text of strerror(3) in the same form.
std::string reason_of(int error_number);

// "; it looks like an SSH server", if the first bytes of a reply are known to be those of
// another kind of server; else empty.
std::string kind_of_server(std::string_view first_bytes);

// The same failure with "; does it require TLS (SCHEME)?", for a server that closes the
// connection without a word: one that requires TLS does when it reads anything else.
Failure with_tls_hint(const Failure& failure, const std::string& scheme);

// A Failure (unreachable): "cannot reach `server`: `why`".
Failure cannot_reach(const std::string& server, const std::string& why);

// Nothing was requested on that connection, so the same request may be sent on another.
class Refusal : public Failure {
 public:
  enum class Reason {
    absent,      // nobody listens there, or whoever does has closed without a word
    overloaded,  // a server is there, and had no room for the connection
  };

  Refusal(Reason reason, const std::string& message)
      : Failure(Kind::unreachable, message), reason_(reason) {}

  Reason reason() const { return reason_; }

 private:
  Reason reason_;
};

}  // namespace dlock::net
