// What a run does when its lease cannot be renewed: --on-outage.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lock/lease_watcher.hpp"
#include "lock/timing.hpp"

namespace dlock {

enum class OnOutage {
  stop,  // no command without the lock: it is ended before its lease ends
  run,   // the command matters more than the lock
};

// Between the one who renews a lease and the one who ends a command. With `stop` it only
// passes on what it is told. With `run` the first renewal that fails takes the deadline
// away, so that nothing ends the command even if this process is stopped later; one that
// is confirmed sets it again, since a lease that can be renewed has held all the time.
class OutagePolicy final : public LeaseWatcher {
 public:
  // `warn` is called with what the user should know: once an outage when the
  // lease may have run out, and when it certainly is lost.
  OutagePolicy(OnOutage on_outage, LeaseTiming timing, Clock::time_point deadline,
               LeaseWatcher& command, std::function<void(const std::string&)> warn);

  void extend(Clock::time_point deadline) override;
  void renewal_failed(Clock::time_point now) override;

  // A loss that is found while renewals fail, or first thing after, is part of the
  // outage; any other ends the command whatever --on-outage says.
  void forfeit(Loss loss) override;

  // Whether the lease has surely held until `now`.
  bool has_held(Clock::time_point now) const;

  // Whether it is in an outage that the command is to live through.
  bool is_in_outage() const { return in_outage_; }

  // Why it has not, if that is certain.
  std::optional<Loss> lost() const { return lost_; }

  // The last moment at which it surely held, as far as it is known.
  Clock::time_point deadline() const { return deadline_; }

 private:
  OnOutage on_outage_;
  LeaseTiming timing_;
  Clock::time_point deadline_;
  LeaseWatcher& command_;
  std::function<void(const std::string&)> warn_;
  bool in_outage_ = false;
  bool has_warned_ = false;
  std::optional<Loss> lost_;
};

}  // namespace dlock
