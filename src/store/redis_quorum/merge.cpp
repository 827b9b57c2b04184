#include "store/redis_quorum/merge.hpp"

#include <algorithm>
#include <functional>

#include "rules/look.hpp"
#include "store/redis_quorum/tally.hpp"

namespace dlock::redis_quorum {
namespace {

bool has_said_how_it_ended(const RunInfo& run) {
  return run.outcome != "running" && run.outcome != "vanished" && run.outcome != by_hand;
}

std::vector<HolderInfo> merged_holders(const std::vector<std::vector<HolderInfo>>& told,
                                       std::size_t servers, std::size_t& least_told) {
  struct HolderReports {
    HolderInfo holder;
    std::size_t by = 0;
    std::size_t broken = 0;
  };
  std::map<Identity, HolderReports> by_identity;
  for (const auto& holders : told) {
    for (const auto& holder : holders) {
      auto& one = by_identity[identity_of(holder)];
      if (one.by++ == 0) one.holder = holder;
      if (holder.broken) ++one.broken;
      if (holder.expires_in < one.holder.expires_in) {
        one.holder.expires_in = holder.expires_in;
      }
    }
  }
  const auto silent = servers - told.size();
  std::vector<HolderInfo> holders;
  least_told = servers;
  for (auto& [identity, one] : by_identity) {
    if (one.by + silent < needed(servers)) continue;
    least_told = std::min(least_told, one.by);
    one.holder.broken = one.broken >= marked_at_least(servers, one.by);
    holders.push_back(std::move(one.holder));
  }
  return holders;
}

// The greatest number that a majority may have reached, counting the servers that did not
// reply.
template <typename Number>
Number reached_by_most(std::vector<Number> numbers, std::size_t servers) {
  const auto silent = servers - numbers.size();
  const auto enough = needed(servers) > silent ? needed(servers) - silent : 1;
  std::ranges::sort(numbers, std::greater<>());
  return numbers[std::min(enough, numbers.size()) - 1];
}

// In the order of the longest queue, followed by waiters that are only in other queues.
std::vector<WaiterInfo> merged_waiters(const std::vector<LockInfo>& told,
                                       std::size_t servers) {
  using Who = std::pair<std::string, pid_t>;  // a process can wait more than once
  auto lines = told;
  std::ranges::stable_sort(lines, [](const LockInfo& a, const LockInfo& b) {
    return a.waiters.size() > b.waiters.size();
  });
  std::map<std::pair<Who, std::size_t>, std::size_t> told_by;
  std::vector<std::pair<std::pair<Who, std::size_t>, WaiterInfo>> all;
  for (const auto& lock : lines) {
    std::map<Who, std::size_t> here;
    for (const auto& waiter : lock.waiters) {
      const Who who(waiter.host, waiter.pid);
      const std::pair place(who, ++here[who]);
      if (++told_by[place] == 1) all.emplace_back(place, waiter);
    }
  }
  const auto silent = servers - told.size();
  std::vector<WaiterInfo> waiters;
  for (auto& [place, waiter] : all) {
    if (told_by[place] + silent >= needed(servers)) waiters.push_back(std::move(waiter));
  }
  return waiters;
}

// The record of a run that most of these agree with. A release may have reached only some
// of the servers, so a recorded end precedes as many records without one.
RunInfo told_most(const std::vector<RunInfo>& records) {
  const RunInfo* most = nullptr;
  std::pair<std::ptrdiff_t, bool> best;
  for (const auto& record : records) {
    const auto count = std::ranges::count_if(records, [&](const RunInfo& other) {
      return record.outcome == other.outcome && record.exit_code == other.exit_code &&
             record.signal == other.signal && record.reason == other.reason;
    });
    const std::pair rank(count, has_said_how_it_ended(record));
    if (most == nullptr || rank > best) {
      most = &record;
      best = rank;
    }
  }
  return *most;
}

// The last of these runs, each reported by one server.
std::optional<RunInfo> last_of(const std::vector<std::vector<RunInfo>>& runs,
                               std::size_t servers) {
  const auto all = merged_runs(runs, servers);
  if (all.empty()) return std::nullopt;
  return *std::ranges::max_element(
      all, [](const RunInfo& a, const RunInfo& b) { return a.fence < b.fence; });
}

std::vector<RunInfo> as_list(const std::optional<RunInfo>& run) {
  if (!run) return {};
  return {*run};
}

// By then every server that will report the event has done so.
constexpr milliseconds told_within{30'000};

}  // namespace

std::vector<HolderInfo> told_by_most(const std::vector<std::vector<HolderInfo>>& told,
                                     std::size_t servers) {
  std::size_t least_told = 0;
  return merged_holders(told, servers, least_told);
}

std::vector<RunInfo> merged_runs(const std::vector<std::vector<RunInfo>>& told,
                                 std::size_t servers) {
  std::map<Identity, std::vector<RunInfo>> by_identity;
  for (const auto& runs : told) {
    for (const auto& run : runs) by_identity[identity_of(run)].push_back(run);
  }
  const auto silent = servers - told.size();
  std::vector<RunInfo> runs;
  for (const auto& [identity, records] : by_identity) {
    if (records.size() + silent >= needed(servers)) runs.push_back(told_most(records));
  }
  std::ranges::stable_sort(
      runs, [](const RunInfo& a, const RunInfo& b) { return a.started > b.started; });
  return runs;
}

LockInfo merged(const std::vector<LockInfo>& told, std::size_t servers) {
  auto lock = told.front();
  std::size_t least_told = 0;
  std::vector<std::vector<HolderInfo>> holders;
  std::vector<std::vector<RunInfo>> last, successes, past, past_successes;
  // A success has to be sure: the silence of a server does not confirm it. Nor what
  // counts.
  for (auto* sure : {&successes, &past, &past_successes}) {
    sure->resize(servers - told.size());
  }
  std::vector<std::uint64_t> known, refused, superseded;
  std::vector<WallTime> now;
  for (const auto& one : told) {
    holders.push_back(one.holders);
    last.push_back(as_list(one.last_run));
    successes.push_back(as_list(one.last_success));
    past.push_back(as_list(one.past.last));
    past_successes.push_back(as_list(one.past.last_success));
    known.push_back(one.known ? 1 : 0);
    refused.push_back(one.refused);
    superseded.push_back(one.superseded);
    now.push_back(one.now);
    if (!one.holders.empty()) lock.mode = one.mode;
  }
  lock.holders = merged_holders(holders, servers, least_told);
  lock.waiters = merged_waiters(told, servers);
  lock.strength.reset();
  if (!lock.holders.empty()) lock.strength = strength(servers, least_told);
  lock.known = reached_by_most(std::move(known), servers) > 0;
  lock.refused = reached_by_most(std::move(refused), servers);
  lock.superseded = reached_by_most(std::move(superseded), servers);
  lock.now = reached_by_most(std::move(now), servers);
  lock.last_run = last_of(last, servers);
  lock.last_success = last_of(successes, servers);
  lock.past = {last_of(past, servers), last_of(past_successes, servers)};
  rules::set_slots(lock, 1);
  return lock;
}

bool EventCount::take(std::size_t server, const Event& event, Clock::time_point now) {
  forget_old(now);
  auto& count = counts_[{event.lock, event.kind, event.fence, event.host, event.pid}];
  count.told.resize(servers_);
  count.last = now;
  ++count.told[server];
  const auto by = std::ranges::count_if(
      count.told, [&](std::size_t told) { return told > count.passed_on; });
  const bool is_news = static_cast<std::size_t>(by) >= needed(servers_);
  if (is_news) ++count.passed_on;
  return is_news;
}

void EventCount::begin_anew(std::size_t server) {
  for (auto& [event, count] : counts_) count.told[server] = count.passed_on;
}

void EventCount::forget_old(Clock::time_point now) {
  if (now < later(looked_at_, told_within)) return;
  looked_at_ = now;
  std::erase_if(counts_, [&](const auto& one) {
    return later(one.second.last, told_within) < now;
  });
}

}  // namespace dlock::redis_quorum
