#include "store/redis_quorum/event_count.hpp"

#include <algorithm>

#include "store/redis_quorum/majority.hpp"

namespace dlock::redis_quorum {
namespace {

// By then every server that will report the event has done so.
constexpr milliseconds told_within{30'000};

}  // namespace

bool EventCount::take(std::size_t server, const Event& event, Clock::time_point now) {
  forget_old(now);
  auto& count = counts_[{event.lock, event.kind, event.fence, event.host, event.pid}];
  count.told.resize(servers_);
  count.last = now;
  ++count.told[server];
  const auto by = std::count_if(count.told.begin(), count.told.end(),
                                [&](std::size_t told) { return told > count.passed_on; });
  const bool is_news = static_cast<std::size_t>(by) >= needed(servers_);
  if (is_news) ++count.passed_on;
  return is_news;
}

void EventCount::forget_old(Clock::time_point now) {
  if (now < later(looked_at_, told_within)) return;
  looked_at_ = now;
  std::erase_if(counts_, [&](const auto& one) {
    return later(one.second.last, told_within) < now;
  });
}

}  // namespace dlock::redis_quorum
