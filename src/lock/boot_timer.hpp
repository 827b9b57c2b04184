// The one timer that all who sleep in a process share.
#pragma once

#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <vector>

#include "lock/clock.hpp"
#include "util/readable.hpp"

namespace dlock {

namespace asio = boost::asio;

class Wakeup;

// A timer on boot time, as Asio's own are not; of a context, made when somebody there
// first needs it. To make one takes four system calls and to set it another, which a
// command would wait for: so there is one, and it is set only to an earlier moment. One
// that nobody wants any more wakes the process once, for nothing.
class BootTimer final : public asio::execution_context::service {
 public:
  using key_type = BootTimer;
  static asio::execution_context::id id;

  // Throws Failure (exhausted).
  explicit BootTimer(asio::execution_context& context);

  void add(Wakeup& sleeper);
  void remove(Wakeup& sleeper);

  // That a sleeper wants to be notified at `moment`.
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
