#include "lease/lease_watcher.hpp"

#include <algorithm>
#include <utility>

namespace dlock {

LeaseWatcher& LeaseGroup::add(Clock::time_point deadline) {
  return members_.emplace_back(*this, deadline);
}

void LeaseGroup::Member::extend(Clock::time_point deadline) {
  deadline_ = deadline;
  auto earliest = deadline;
  for (const auto& member : group_.members_) {
    earliest = std::min(earliest, member.deadline());
  }
  group_.command_.extend(earliest);
}

OutagePolicy::OutagePolicy(OnOutage on_outage, LeaseTiming timing,
                           Clock::time_point deadline, LeaseWatcher& command,
                           std::function<void(const std::string&)> warn)
    : on_outage_(on_outage),
      timing_(timing),
      deadline_(deadline),
      command_(command),
      warn_(std::move(warn)) {}

void OutagePolicy::extend(Clock::time_point deadline) {
  deadline_ = deadline;
  in_outage_ = false;
  has_warned_ = false;
  command_.extend(deadline);
}

void OutagePolicy::renewal_failed(Clock::time_point now, const std::string& why) {
  command_.renewal_failed(now, why);
  if (on_outage_ == OnOutage::stop) return;
  if (!in_outage_) command_.extend(Clock::time_point::max());
  in_outage_ = true;
  // When the command would have been stopped. Most outages are over before that.
  if (has_warned_ || now < deadline_ - timing_.margin() - timing_.grace()) return;
  has_warned_ = true;
  warn_(
      "the lock cannot be renewed; the command continues unprotected (--on-outage run)");
}

void OutagePolicy::forfeit(Loss loss) {
  if (!in_outage_) {
    command_.forfeit(loss);
    return;
  }
  lost_ = loss;
  warn_(
      "the lock was lost during a store outage; the command continues unprotected "
      "(--on-outage run)");
}

bool OutagePolicy::has_held(Clock::time_point now) const {
  return !lost_ && now < deadline_;
}

}  // namespace dlock
