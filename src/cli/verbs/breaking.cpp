#include "cli/verbs/breaking.hpp"

#include <algorithm>
#include <utility>

#include "cli/show/holder_text.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// The pause between checks whether the lock is free; there is no notification of that.
constexpr milliseconds first_pause{20};
constexpr milliseconds longest_pause{250};

// When to report that a holder takes long to end.
constexpr milliseconds long_wait{10'000};

std::vector<Fence> fences_of(const std::vector<HolderInfo>& holders) {
  std::vector<Fence> fences;
  fences.reserve(holders.size());
  for (const auto& holder : holders) fences.push_back(holder.fence);
  return fences;
}

}  // namespace

std::string described_for_break(const HolderInfo& holder) {
  const auto who = "held by " + described(holder);
  return holder.foreign ? who + " (not dlock: it is not notified, and continues)" : who;
}

Breaking::Breaking(asio::io_context& context, Store& store, const LockInfo& info,
                   bool by_force, const CommonOptions& common)
    : wakeup_(context),
      store_(store),
      lock_(info.lock),
      fences_(fences_of(info.holders)),
      by_force_(by_force),
      speaker_(lock_.name, common.quiet, common.verbose) {}

asio::awaitable<void> Breaking::take() {
  for (auto& broken : co_await tell(fences_)) {
    speaker_.step("broken: " + described(broken.holder));
    taken_.push_back(std::move(broken.holder));
  }
}

asio::awaitable<void> Breaking::wait() {
  GrowingPause pause(longest_pause, first_pause);
  for (;;) {
    const auto left = co_await left_of(fences_of(taken_));
    if (left.empty()) break;
    warn_of_long_wait(left.front());
    co_await wakeup_.sleep_until(later(Clock::now(), pause.next()));
    // Repeats the call if the mark was lost (a server lost its data, and the holder
    // restored its lease), and if there are processes left to end.
    const bool again = std::ranges::any_of(left, [](const HolderInfo& holder) {
      return !holder.broken || holder.dlock_gone;
    });
    if (again) co_await tell(fences_of(left));
  }
}

asio::awaitable<std::vector<HolderInfo>> Breaking::left_of(
    const std::vector<Fence>& fences) {
  auto info = co_await store_.inspector().inspect(lock_, wakeup_);
  std::erase_if(info.holders, [&](const HolderInfo& holder) {
    return std::ranges::count(fences, holder.fence) == 0;
  });
  co_return std::move(info.holders);
}

asio::awaitable<std::vector<Broken>> Breaking::tell(const std::vector<Fence>& fences) {
  const Break order{fences, by_force_};  // has to outlive the call
  auto broken = co_await store_.break_leases(lock_, order, wakeup_);
  for (const auto& one : broken) {
    if (one.holder.dlock_gone) orphans_.end(one);
  }
  co_return broken;
}

void Breaking::warn_of_long_wait(const HolderInfo& holder) {
  if (warned_ || Clock::now() - began_ < long_wait) return;
  warned_ = true;
  speaker_.warning("still " + described_for_break(holder) + "; it was asked to end" +
                   (holder.expires_in
                        ? ", and its lease expires in " + for_people(*holder.expires_in)
                        : ""));
}

}  // namespace dlock
