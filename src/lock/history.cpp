#include "lock/history.hpp"

#include <algorithm>
#include <iterator>

namespace dlock {
namespace {

struct Taking {
  bool replaces;
  bool forced;
  std::string_view prefix;  // of the reason
};

// A prefix that begins with another one comes before it.
constexpr Taking takings[] = {{false, true, "broken by force by "},
                              {false, false, "broken by "},
                              {true, false, "replaced by "}};

constexpr const char* names[] = {"granted", "queued", "left",  "released",
                                 "expired", "lost",   "broken"};

}  // namespace

bool is_by_hand(const RunInfo& run) { return run.outcome == by_hand; }

void set_end(RunInfo& run, const RunEnd& end) {
  run.duration = end.duration;
  run.exit_code = end.exit_code;
  run.signal = end.signal;
  run.outcome = end.outcome;
  if (end.lost) run.reason = loss_name(*end.lost);
  if (end.lost == Loss::broken && end.taken_by) run.reason = taken_reason(*end.taken_by);
}

bool is_running(const RunInfo& run) {
  return run.outcome == "running" || (is_by_hand(run) && !run.ended && run.duration);
}

bool is_success(const RunInfo& run) {
  return run.outcome == "ran" && run.exit_code == 0 && run.reason.empty();
}

std::optional<RunInfo> last_success_of(const std::vector<RunInfo>& runs,
                                       const std::optional<RunInfo>& known) {
  auto last = known;
  for (const auto& run : runs) {
    if (is_success(run) && (!last || last->ended < run.ended)) last = run;
  }
  return last;
}

std::string taken_reason(const Taker& taker) {
  const auto& taking = *std::find_if(
      std::begin(takings), std::prev(std::end(takings)), [&](const Taking& one) {
        return one.replaces == taker.replaces && one.forced == taker.forced;
      });
  return std::string(taking.prefix) + taker.user + "@" + taker.host;
}

std::optional<Taker> taker_of(const RunInfo& run) {
  const std::string_view reason = run.reason;
  for (const auto& taking : takings) {
    if (!reason.starts_with(taking.prefix)) continue;
    const auto who = reason.substr(taking.prefix.size());
    const auto at = std::min(who.rfind('@'), who.size());
    return Taker{std::string(who.substr(0, at)),
                 std::string(who.substr(std::min(at + 1, who.size()))), taking.replaces,
                 taking.forced};
  }
  return std::nullopt;
}

std::optional<Taker> forced_by(const RunInfo& run) {
  auto taker = taker_of(run);
  return taker && taker->forced ? taker : std::nullopt;
}

void keep_forced_reason(const RunInfo& former, RunInfo& run) {
  if (former.fence == run.fence && forced_by(former)) run.reason = former.reason;
}

void add_to_history(std::vector<RunInfo>& runs, const RunInfo& run) {
  runs.insert(runs.begin(), run);
  if (std::ranges::count_if(runs, is_by_hand) >
      static_cast<std::ptrdiff_t>(leases_by_hand_kept)) {
    runs.erase(std::next(std::find_if(runs.rbegin(), runs.rend(), is_by_hand)).base());
  }
  if (runs.size() > runs_kept) runs.resize(runs_kept);
}

std::optional<RunInfo> run_of(const HolderInfo& holder) {
  if (holder.foreign || holder.run_ended) return std::nullopt;
  RunInfo run;
  run.fence = holder.fence;
  run.started = holder.since;
  run.duration = holder.held;
  run.Owner::operator=(holder);
  run.Description::operator=(holder);
  run.period = holder.period;
  run.outcome = holder.attached ? "running" : by_hand;
  return run;
}

std::vector<RunInfo> as_history(std::vector<RunInfo> runs, WallTime now) {
  // A run that vanished has no end; only its start is known.
  std::erase_if(runs, [&](const RunInfo& run) {
    return !is_running(run) &&
           now - run.ended.value_or(run.started) > WallTime(run_retention);
  });
  // Stable, so that the first of two records of a run counts.
  std::ranges::stable_sort(runs, [](const RunInfo& a, const RunInfo& b) {
    return a.started != b.started ? a.started > b.started : a.fence > b.fence;
  });
  const auto is_same = [](const RunInfo& a, const RunInfo& b) {
    return a.fence == b.fence;
  };
  runs.erase(std::unique(runs.begin(), runs.end(), is_same), runs.end());
  return runs;
}

const char* event_name(Event::Kind kind) { return names[static_cast<std::size_t>(kind)]; }

std::optional<Event::Kind> event_kind_of(std::string_view name) {
  const auto* found = std::ranges::find(names, name);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<Event::Kind>(found - std::begin(names));
}

}  // namespace dlock
