#include "cli/show/metrics_view.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cli/show/lock_view.hpp"
#include "lock/history.hpp"
#include "supervise/signals.hpp"
#include "util/text.hpp"
#include "util/utf8.hpp"

namespace dlock {
namespace {

using Sample = std::optional<std::string>;

// Exact, unlike a conversion to double: "0", "1.5", "1700000000.000001".
std::string in_seconds(std::chrono::microseconds duration) {
  constexpr std::int64_t second = 1'000'000;
  const auto count = std::max<std::int64_t>(duration.count(), 0);
  auto fraction = std::to_string(second + count % second);
  fraction.front() = '.';
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return std::to_string(count / second) + (fraction == "." ? "" : fraction);
}

// A server may contain names that dlock does not accept; a line break in a name must not
// end the line.
std::string label_value(const std::string& text) {
  constexpr std::size_t longest = 1024;
  std::string value;
  for (const char c : is_printable_utf8(text) ? text : printable(text, longest)) {
    if (c == '\\' || c == '"') value += '\\';
    value += c;
  }
  return value;
}

// There is no limit on shared holders.
Sample slots(const LockInfo& lock, unsigned number) {
  return lock.mode == Mode::shared ? Sample() : std::to_string(number);
}

// The age of the oldest holder; it is unknown for one that is not dlock.
Sample held_age(const LockInfo& lock) {
  std::optional<milliseconds> age;
  for (const auto& holder : lock.holders) {
    if (!holder.foreign) age = std::max(age.value_or(holder.held), holder.held);
  }
  return age ? Sample(in_seconds(*age)) : std::nullopt;
}

Sample longest_wait(const LockInfo& lock) {
  milliseconds longest{0};
  for (const auto& waiter : lock.waiters) longest = std::max(longest, waiter.waiting);
  return lock.waiters.empty() ? Sample() : in_seconds(longest);
}

// The exit code as a shell reports it in $?.
Sample exit_code(const RunInfo& run) {
  const auto signal = run.signal ? signal_named(*run.signal) : std::nullopt;
  if (signal) return std::to_string(128 + *signal);
  return run.exit_code ? Sample(std::to_string(*run.exit_code)) : std::nullopt;
}

Sample success(const RunInfo& run) {
  if (run.outcome == "running") return std::nullopt;
  return is_failure(run) ? "0" : "1";
}

Sample duration(const RunInfo& run) {
  return run.duration ? Sample(in_seconds(*run.duration)) : std::nullopt;
}

Sample ended(const RunInfo& run) {
  return run.ended ? Sample(in_seconds(*run.ended)) : std::nullopt;
}

// Of the last run, if there was one.
template <Sample (*of)(const RunInfo&)>
Sample last_run(const LockInfo& lock) {
  return lock.last_run ? of(*lock.last_run) : std::nullopt;
}

struct LockMetric {
  const char* name;
  const char* help;
  Sample (*of)(const LockInfo&);
};

constexpr LockMetric lock_metrics[] = {
    {"dlock_lock_holders", "Holders of the lock.",
     [](const LockInfo& lock) -> Sample { return std::to_string(lock.holders.size()); }},
    {"dlock_lock_waiters", "Waiters for the lock.",
     [](const LockInfo& lock) -> Sample { return std::to_string(lock.waiters.size()); }},
    {"dlock_lock_slots", "Slots of the lock: how many holders it can have.",
     [](const LockInfo& lock) { return slots(lock, lock.slots); }},
    {"dlock_lock_slots_free", "Free slots of the lock.",
     [](const LockInfo& lock) { return slots(lock, lock.free); }},
    {"dlock_lock_held_age_seconds", "How long the oldest holder has held the lock.",
     held_age},
    {"dlock_lock_longest_wait_seconds",
     "How long the waiter that has waited longest has waited.", longest_wait},
    {"dlock_runs_refused_total",
     "Runs that were not granted the lock because others held it.",
     [](const LockInfo& lock) -> Sample { return std::to_string(lock.refused); }},
    {"dlock_runs_superseded_total", "Runs that were superseded by a newer one.",
     [](const LockInfo& lock) -> Sample { return std::to_string(lock.superseded); }},
    {"dlock_last_success_timestamp_seconds",
     "When the last successful run (exit code 0) ended, in seconds since the epoch.",
     [](const LockInfo& lock) -> Sample {
       if (!lock.last_success || !lock.last_success->ended) return std::nullopt;
       return in_seconds(*lock.last_success->ended);
     }},
    {"dlock_last_run_success", "Whether the last run's command ran and exited with 0.",
     last_run<success>},
    {"dlock_last_run_exit_code",
     "Exit code of the last run; 128 plus the signal's number if one ended it.",
     last_run<exit_code>},
    {"dlock_last_run_duration_seconds", "How long the last run took.",
     last_run<duration>},
    {"dlock_last_run_ended_timestamp_seconds",
     "When the last run ended, in seconds since the epoch.", last_run<ended>},
};

std::string head_of(const std::string& name, const std::string& help) {
  const auto* type = name.ends_with("_total") ? " counter" : " gauge";
  return "# HELP " + name + " " + help + "\n# TYPE " + name + type + "\n";
}

std::string labels_of(const LockName& lock) {
  return "name=\"" + label_value(lock.name) + "\",namespace=\"" +
         label_value(lock.name_space) + "\"";
}

// `about` are the locks, or their histories.
template <typename About, typename SampleOf>
void show_metric(Pieces& pieces, const std::string& name, const char* help,
                 const About& about, SampleOf sample_of) {
  auto head = head_of(name, help);
  for (const auto& lock : about) {
    const Sample sample = sample_of(lock);
    if (!sample) continue;
    pieces.add(std::exchange(head, "") + name + "{" + labels_of(lock.lock) + "} " +
               *sample + "\n");
  }
}

// The upper bounds of the classes of durations: from a script that has nothing to do to a
// job of a day.
struct DurationClass {
  milliseconds most;
  const char* text;
};
constexpr DurationClass duration_classes[] = {
    {milliseconds(100), "0.1"},          {milliseconds(1'000), "1"},
    {milliseconds(10'000), "10"},        {milliseconds(60'000), "60"},
    {milliseconds(300'000), "300"},      {milliseconds(900'000), "900"},
    {milliseconds(3'600'000), "3600"},   {milliseconds(14'400'000), "14400"},
    {milliseconds(86'400'000), "86400"}, {milliseconds::max(), "+Inf"},
};

// The durations of the runs that have ended.
std::vector<milliseconds> durations_in(const LockHistory& history) {
  std::vector<milliseconds> durations;
  for (const auto& run : history.runs) {
    if (run.duration && !is_running(run) && !is_by_hand(run)) {
      durations.push_back(*run.duration);
    }
  }
  return durations;
}

Sample lost_runs(const LockHistory& history) {
  if (history.runs.empty()) return std::nullopt;
  return std::to_string(std::ranges::count(history.runs, lost_run, &RunInfo::outcome));
}

Sample last_loss(const LockHistory& history) {
  std::optional<WallTime> last;
  for (const auto& run : history.runs) {
    if (run.outcome == lost_run && run.ended)
      last = std::max(last.value_or(*run.ended), *run.ended);
  }
  return last ? Sample(in_seconds(*last)) : std::nullopt;
}

void show_histogram(Pieces& pieces, const std::vector<LockHistory>& histories) {
  const std::string name = "dlock_run_duration_seconds";
  auto head = "# HELP " + name +
              " How long runs took: the last that are recorded of each lock.\n# TYPE " +
              name + " histogram\n";
  for (const auto& history : histories) {
    const auto durations = durations_in(history);
    if (durations.empty()) continue;
    const auto labels = labels_of(history.lock);
    auto samples = std::exchange(head, "");
    for (const auto& [most, text] : duration_classes) {
      const auto count = std::ranges::count_if(
          durations, [most = most](milliseconds one) { return one <= most; });
      samples += name + "_bucket{" + labels + ",le=\"" + text + "\"} " +
                 std::to_string(count) + "\n";
    }
    const auto sum = std::accumulate(durations.begin(), durations.end(), milliseconds(0));
    samples += name + "_sum{" + labels + "} " + in_seconds(sum) + "\n" + name +
               "_count{" + labels + "} " + std::to_string(durations.size()) + "\n";
    pieces.add(samples);
  }
}

}  // namespace

void show_metrics(const std::string& name_space, const std::vector<LockInfo>* found,
                  const std::vector<LockHistory>& histories, const ShowText& show) {
  Pieces pieces(show);
  pieces.add(head_of("dlock_up", "Whether the store replies.") + "dlock_up{namespace=\"" +
             label_value(name_space) + "\"} " + (found != nullptr ? "1" : "0") + "\n");
  if (found != nullptr) {
    for (const auto& metric : lock_metrics) {
      show_metric(pieces, metric.name, metric.help, *found, metric.of);
    }
    show_metric(pieces, "dlock_lost_runs", "Runs that lost the lock, of those recorded.",
                histories, lost_runs);
    show_metric(pieces, "dlock_last_loss_timestamp_seconds",
                "When the last run that lost the lock ended, since the epoch.", histories,
                last_loss);
    show_histogram(pieces, histories);
  }
  pieces.flush();
}

std::string incomplete_metric(const std::string& name_space) {
  return head_of("dlock_incomplete", "Whether some locks could not be read.") +
         "dlock_incomplete{namespace=\"" + label_value(name_space) + "\"} 1\n";
}

}  // namespace dlock
