// Bounds an exchange with a server, and lets the caller interrupt it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>

#include "loop/wakeup.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"

namespace dlock::net {

// Nothing came within the budget. Any other failure says more about the server.
class Timeout : public Failure {
 public:
  explicit Timeout(const std::string& message) : Failure(Kind::unreachable, message) {}
};

// The total time limit of one exchange. All waiting within the exchange happens here.
class Budget {
 public:
  // `server` is for messages.
  Budget(Clock::time_point until, Wakeup& wakeup, std::string server);

  // Sleeps until `is_true` returns true; it is called again after each notification.
  // Returns false if the budget, or `moment`, passes first. Throws Failure (interrupted)
  // when the caller wants to stop.
  asio::awaitable<bool> wait(std::function<bool()> is_true,
                             Clock::time_point moment = Clock::time_point::max());

  // Throws Failure if the exchange should not even begin: the budget is spent, or the
  // caller wants to stop.
  void check() const;

  bool is_over() const { return Clock::now() >= until_; }
  Clock::time_point until() const { return until_; }
  Wakeup& wakeup() const { return wakeup_; }
  const std::string& server() const { return server_; }

  // "`who` did not reply within 2s".
  Timeout timeout(const std::string& who) const;

  // Passes on a notification that woke this exchange but was meant for the caller. To be
  // called at the end of the exchange; earlier, it would end the exchange's own next
  // sleep.
  void hand_on();

 private:
  Failure given_up() const;

  Clock::time_point began_ = Clock::now();
  Clock::time_point until_;
  Wakeup& wakeup_;
  std::string server_;
  bool woken_for_others_ = false;
};

}  // namespace dlock::net
