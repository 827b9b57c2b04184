#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "cli/run/verb_store.hpp"
#include "cli/show/lock_view.hpp"
#include "cli/terminal/speaker.hpp"
#include "cli/verbs/verbs.hpp"
#include "lock/history.hpp"
#include "loop/event_loop.hpp"
#include "loop/wakeup.hpp"
#include "supervise/signals.hpp"
#include "util/text.hpp"
#include "util/utf8.hpp"

namespace dlock {
namespace {

std::string listed(const std::vector<LockInfo>& locks, ListOptions::Form form,
                   Color color) {
  if (form == ListOptions::Form::table) {
    return list_text(locks, use_color(color), columns_of_output());
  }
  Json all = Json::array();
  for (const auto& lock : locks) all.push_back(json_of(lock));
  return to_line(all) + "\n";
}

// Printed on standard error, so that a script that reads standard output need not skip
// it.
std::string none_text(const ListOptions& options, const std::string& store) {
  const auto which = options.pattern == "*" ? "" : " that match " + options.pattern;
  return std::string(options.means_all() ? "no locks" : "no such locks") +
         (options.held ? " are held" : "") + printable(which, 300) + " in " +
         printable(store);
}

}  // namespace

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
};

struct RunMetric {
  const char* name;
  const char* help;
  Sample (*of)(const RunInfo&);
};

constexpr RunMetric run_metrics[] = {
    {"dlock_last_run_success", "Whether the last run's command ran and exited with 0.",
     success},
    {"dlock_last_run_exit_code",
     "Exit code of the last run; 128 plus the signal's number if one ended it.",
     exit_code},
    {"dlock_last_run_duration_seconds", "How long the last run took.",
     [](const RunInfo& run) {
       return run.duration ? Sample(in_seconds(*run.duration)) : std::nullopt;
     }},
    {"dlock_last_run_ended_timestamp_seconds",
     "When the last run ended, in seconds since the epoch.",
     [](const RunInfo& run) {
       return run.ended ? Sample(in_seconds(*run.ended)) : std::nullopt;
     }},
};

std::string head_of(const std::string& name, const char* help) {
  const auto* type = name.ends_with("_total") ? " counter" : " gauge";
  return "# HELP " + name + " " + help + "\n# TYPE " + name + type + "\n";
}

std::string labels_of(const LockName& lock) {
  return "name=\"" + label_value(lock.name) + "\",namespace=\"" +
         label_value(lock.name_space) + "\"";
}

template <typename SampleOf>
std::string metric_text(const std::string& name, const char* help,
                        const std::vector<LockInfo>& locks, SampleOf sample_of) {
  std::string samples;
  for (const auto& lock : locks) {
    const Sample sample = sample_of(lock);
    if (!sample) continue;
    samples += name + "{" + labels_of(lock.lock) + "} " + *sample + "\n";
  }
  if (samples.empty()) return "";
  return head_of(name, help) + samples;
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

std::string histogram_text(const std::vector<LockHistory>& histories) {
  const std::string name = "dlock_run_duration_seconds";
  std::string samples;
  for (const auto& history : histories) {
    const auto durations = durations_in(history);
    if (durations.empty()) continue;
    const auto labels = labels_of(history.lock);
    for (const auto& [most, text] : duration_classes) {
      const auto count =
          std::count_if(durations.begin(), durations.end(),
                        [most = most](milliseconds one) { return one <= most; });
      samples += name + "_bucket{" + labels + ",le=\"" + text + "\"} " +
                 std::to_string(count) + "\n";
    }
    const auto sum = std::accumulate(durations.begin(), durations.end(), milliseconds(0));
    samples += name + "_sum{" + labels + "} " + in_seconds(sum) + "\n" + name +
               "_count{" + labels + "} " + std::to_string(durations.size()) + "\n";
  }
  if (samples.empty()) return "";
  return "# HELP " + name +
         " How long runs took: the last that are recorded of each lock.\n# TYPE " + name +
         " histogram\n" + samples;
}

}  // namespace

std::string metrics_text(const std::string& name_space,
                         const std::optional<std::vector<LockInfo>>& found,
                         const std::vector<LockHistory>& histories) {
  auto text = head_of("dlock_up", "Whether the store replies.") +
              "dlock_up{namespace=\"" + label_value(name_space) + "\"} " +
              (found ? "1" : "0") + "\n";
  if (!found) return text;
  const auto& locks = *found;
  for (const auto& metric : lock_metrics) {
    text += metric_text(metric.name, metric.help, locks, metric.of);
  }
  for (const auto& metric : run_metrics) {
    text +=
        metric_text(metric.name, metric.help, locks, [&](const LockInfo& lock) -> Sample {
          return lock.last_run ? metric.of(*lock.last_run) : std::nullopt;
        });
  }
  return text + histogram_text(histories);
}

namespace {

int group_of(const LockInfo& lock) {
  if (!lock.holders.empty()) return 0;
  return lock.waiters.empty() ? 2 : 1;
}

// How long the lock has been held; zero if it is free or the time is unknown.
milliseconds held_for(const LockInfo& lock) {
  milliseconds longest{0};
  for (const auto& holder : lock.holders) longest = std::max(longest, holder.held);
  return longest;
}

WallTime last_used(const LockInfo& lock) {
  if (!lock.last_run) return WallTime(0);
  return lock.last_run->ended.value_or(lock.last_run->started);
}

bool is_older(const LockInfo& one, const LockInfo& other) {
  return std::tuple(group_of(one) != 0, -held_for(one), -last_used(one)) <
         std::tuple(group_of(other) != 0, -held_for(other), -last_used(other));
}

}  // namespace

std::vector<LockInfo> selected(std::vector<LockInfo> locks, const ListOptions& options) {
  if (options.held) {
    std::erase_if(locks, [](const LockInfo& lock) { return lock.holders.empty(); });
  }
  if (!options.means_all()) {
    const auto is_meant = [&](const auto& party) { return options.means(party, party); };
    std::erase_if(locks, [&](LockInfo& lock) {
      // The table names the first holder.
      const auto others =
          std::stable_partition(lock.holders.begin(), lock.holders.end(), is_meant);
      const bool holds = others != lock.holders.begin();
      return !holds && (options.held ||
                        std::none_of(lock.waiters.begin(), lock.waiters.end(), is_meant));
    });
  }
  if (options.order == ListOrder::age) {
    std::stable_sort(locks.begin(), locks.end(), is_older);
  }
  if (options.form == ListOptions::Form::live) {
    std::stable_sort(locks.begin(), locks.end(),
                     [](const LockInfo& one, const LockInfo& other) {
                       return group_of(one) < group_of(other);
                     });
  }
  return locks;
}

namespace {

void keep_those_of(const std::vector<LockInfo>& locks,
                   std::vector<LockHistory>& histories) {
  std::set<std::string> names;
  for (const auto& lock : locks) names.insert(lock.lock.name);
  std::erase_if(histories, [&](const LockHistory& history) {
    return names.count(history.lock.name) == 0;
  });
}

}  // namespace

Exit status_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  const auto& names = invocation.operands;
  for (const auto& name : names) parsed_name(name);
  EventLoop context;
  const bool is_one = names.size() == 1;
  const auto store = about(names.front(), [&] {
    return opened_store(common, store_timeout(common, {}), context,
                        is_one ? names.front() : "");
  });
  const auto look = [&] { return look_at_each(common, *store, names, context); };
  const auto seen = is_one ? about(names.front(), look) : look();
  Json all = Json::array();
  std::string text;
  bool is_held = false;
  for (const auto& info : seen.locks) {
    is_held = is_held || !info.holders.empty();
    if (common.json) {
      all.push_back(json_of(info));
      continue;
    }
    text += (text.empty() ? "" : "\n") +
            status_text(info, store->url(), use_color(common.color), columns_of_output());
  }
  print(common.json ? to_line(is_one ? all.front() : all) + "\n" : text);
  if (seen.status != ExitStatus::success) return seen.status;
  return is_held ? ExitStatus::success : ExitStatus::not_held;
}

Exit list_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  const auto options = list_options(invocation.settings, invocation.operands);
  if (options.form == ListOptions::Form::live) return list_live(common, options);
  const bool is_metrics = options.form == ListOptions::Form::metrics;
  EventLoop context;
  Wakeup wakeup(context);
  const auto store = opened_store(common, store_timeout(common, {}), context);
  std::vector<LockInfo> locks;
  std::vector<LockHistory> histories;
  const auto matches = [&](const std::string& name) {
    return matches_glob(options.pattern, name);
  };
  try {
    // First, so that left_out() is about the locks.
    if (is_metrics) {
      histories = run_blocking(context, [&] {
        return store->inspector().histories(common.name_space, matches, wakeup);
      });
    }
    locks = run_blocking(context, [&] {
      return store->inspector().list(common.name_space, matches, wakeup);
    });
  } catch (const Failure&) {
    if (is_metrics) print(metrics_text(common.name_space, std::nullopt));
    throw;
  }
  locks = selected(std::move(locks), options);
  if (is_metrics) keep_those_of(locks, histories);
  if (!locks.empty() || options.form != ListOptions::Form::table) {
    print(is_metrics ? metrics_text(common.name_space, locks, histories)
                     : listed(locks, options.form, common.color));
  } else if (store->inspector().left_out().empty()) {
    Speaker("", common.quiet, common.verbose).warning(none_text(options, store->url()));
  }
  return report_left_out(store->inspector());
}

}  // namespace dlock
