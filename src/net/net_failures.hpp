// The failures of connections, and the words for them.
#pragma once

#include <string>
#include <string_view>

#include "loop/wakeup.hpp"
#include "util/clock.hpp"
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
    absent,      // no program listens there, or it has closed without a word
    overloaded,  // a server is there, and had no room for the connection
  };

  Refusal(Reason reason, const std::string& message)
      : Failure(Kind::unreachable, message), reason_(reason) {}

  Reason reason() const { return reason_; }

 private:
  Reason reason_;
};

// For how long a connection that failed is tried again from the first attempt on, if no
// other server can take its place; zero for a failure that is not of the connection, or
// that will not pass. `timeout` is the budget of the operation.
//
// A server that is there but has no room gets all of it: room is made as soon as another
// client leaves. One that does not listen gets a quarter: that is enough for a restart of
// the process, and a user who waits for the message "connection refused" waits half a
// second and not two.
milliseconds patience_with(const Failure& failure, milliseconds timeout);

// The pauses between attempts. At random, because the clients that a server refuses have
// usually come at the same moment.
class Backoff {
 public:
  milliseconds next();

 private:
  // Short enough for a failover that may complete any moment, long enough that a thousand
  // clients do not keep a full server busy with refusing them.
  GrowingPause longest_{/*longest=*/milliseconds(200), /*first=*/milliseconds(20)};
};

}  // namespace dlock::net
