// One exchange with a server: its time limit, how the caller interrupts it, when its
// socket can be read or written, and the failures that end it, with the words for them.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

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

// The attempts of one operation, whose servers may be restarted or replaced meanwhile:
// the pauses between them, and the failure to report in the end.
class Attempts {
 public:
  // The first one begins now. `timeout` is the budget of the operation, which is `call`.
  Attempts(Call call, milliseconds timeout) : timeout_(timeout), call_(call) {}

  // Records why the attempt failed, as it is to be reported. That a later one ran out of
  // time changes nothing: it does not say why those before it failed.
  void note(const Failure& failure, const Failure& reported);
  void note(const Failure& failure) { note(failure, failure); }

  // Why they failed. At least one failure must have been recorded.
  const Failure& reason() const { return *reason_; }

  // Until when to try again after a failure of that kind, by patience_with().
  Clock::time_point end_of_patience(const Failure& failure) const;

  // Sleeps before the next attempt. Returns false at once if that would not begin before
  // `end`, or the caller gives up. Passes on a notification as a Budget does.
  asio::awaitable<bool> pause(Clock::time_point end);
  asio::awaitable<bool> pause() { return pause(call_.until); }

  // How long the next pause lasts: at random, because the clients that a server refuses
  // have usually come at the same moment.
  milliseconds next_pause();

 private:
  milliseconds timeout_;
  Call call_;
  Clock::time_point began_ = Clock::now();
  std::optional<Failure> reason_;
  // Short enough for a failover that may complete any moment, long enough that a thousand
  // clients do not keep a full server busy with refusing them.
  GrowingPause longest_{/*longest=*/milliseconds(200), /*first=*/milliseconds(20)};
};

// Nothing came within the budget. Any other failure says more about the server.
class Timeout : public Failure {
 public:
  explicit Timeout(const std::string& message, bool is_slow = false)
      : Failure(Kind::unreachable, message), is_slow_(is_slow) {}

  // Whether the server has replied before, slowly: then the message says how far it came
  // and which option gives it more time, and needs no other reason.
  bool is_slow() const { return is_slow_; }

 private:
  bool is_slow_;
};

inline bool is_slow(const Failure& failure) {
  const auto* timeout = dynamic_cast<const Timeout*>(&failure);
  return timeout != nullptr && timeout->is_slow();
}

// The total time limit of one exchange. All waiting within the exchange happens here. At
// its end, a notification is passed on that woke the exchange but was meant for the
// caller; earlier, it would end the exchange's own next sleep.
class Budget {
 public:
  // `server` is for messages.
  Budget(Call call, std::string server) : call_(call), server_(std::move(server)) {}
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // Sleeps until `is_true` returns true; it is called again after each notification.
  // Returns false if the budget, or `moment`, passes first. Throws Failure (interrupted)
  // when the caller wants to stop.
  asio::awaitable<bool> wait(std::function<bool()> is_true,
                             Clock::time_point moment = Clock::time_point::max());

  // Throws Failure if the exchange should not even begin: the budget is spent, or the
  // caller wants to stop.
  void check() const;

  bool is_over() const { return call_.is_over(); }
  Clock::time_point until() const { return call_.until; }
  Wakeup& wakeup() const { return call_.wakeup; }
  const std::string& server() const { return server_; }

  // Notes how far the exchange has come, for timeout(): "connected". The same word only
  // counts once.
  void reached(std::string_view what);

  // "`who` did not reply within 2.0s", or "in time" if there was none.
  Timeout timeout(const std::string& who) const;

 private:
  Failure given_up() const;

  Clock::time_point began_ = Clock::now();
  Call call_;
  std::string server_;
  std::string_view last_reached_;
  std::string progress_;  // "connected after 300ms, logged in after 1.2s"
  bool is_slow_ = false;
  bool woken_for_others_ = false;
};

// Watches a socket owned by the caller, who must destroy this object before closing it.
// An event only sets a flag and notifies, and does nothing after this object is
// destroyed, even if the event was already queued.
class Readiness {
 public:
  enum class For { reading, writing };

  Readiness(asio::io_context& context, int fd);
  ~Readiness();
  Readiness(const Readiness&) = delete;
  Readiness& operator=(const Readiness&) = delete;

  // Requests a notification when the socket is ready for `what`. Replaces an earlier
  // request that is still pending.
  void ask(For what, Wakeup& wakeup);

  // Whether the socket has become ready since the request.
  bool came(For what) const;

  class Question;

 private:
  struct Watch;
  std::shared_ptr<Watch> watch_;
};

// Requests a notification and cancels the request when destroyed, so that no destroyed
// `wakeup` is notified. May outlive the Readiness.
class Readiness::Question {
 public:
  Question(Readiness& readiness, For what, Wakeup& wakeup);
  ~Question();
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

 private:
  std::weak_ptr<Watch> watch_;
  For what_;
  Wakeup* wakeup_;
};

// Whether the socket is ready at once, or within a millisecond, the longest that a server
// on this machine takes. This costs one system call; the event loop needs four.
bool is_ready_soon(int fd, Readiness::For what);

struct Progress {
  enum class State { done, wants_to_read, wants_to_write, failed };

  State state;
  std::size_t size = 0;  // bytes read (0: closed by the peer) or written
  int error = 0;         // errno, if it failed

  Readiness::For awaited() const {
    return state == State::wants_to_read ? Readiness::For::reading
                                         : Readiness::For::writing;
  }
};

}  // namespace dlock::net
