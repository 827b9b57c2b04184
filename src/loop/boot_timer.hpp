// The timer shared by everything in the process that sleeps.
#pragma once

#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <vector>

#include "loop/readable.hpp"
#include "util/clock.hpp"

namespace dlock {

namespace asio = boost::asio;

class Wakeup;

// A timer on boot time, which Asio's timers do not use. There is one per context, created
// when it is first needed. Creating a timer takes four system calls and setting it
// another one, which would delay the command; so there is only one, and it is only ever
// set to an earlier moment. A moment that is no longer needed wakes the process once for
// nothing.
class BootTimer final : public asio::execution_context::service {
 public:
  using key_type = BootTimer;
  static asio::execution_context::id id;

  // Throws Failure (exhausted).
  explicit BootTimer(asio::execution_context& context);

  void add(Wakeup& sleeper);
  void remove(Wakeup& sleeper);

  // Has the sleepers notified at `moment` at the latest.
  void wake_by(Clock::time_point moment);

 private:
  void shutdown() override;
  void expired();
  void set(Clock::time_point moment);

  std::optional<Readable> timer_;
  Clock::time_point set_to_ = Clock::time_point::max();
  std::vector<Wakeup*> sleepers_;
};

}  // namespace dlock
