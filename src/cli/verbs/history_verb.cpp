#include <algorithm>

#include "cli/run/missed_ends.hpp"
#include "cli/run/verb_store.hpp"
#include "cli/show/history_view.hpp"
#include "cli/show/lock_view.hpp"
#include "cli/show/screen.hpp"
#include "cli/terminal/speaker.hpp"
#include "cli/verbs/verbs.hpp"
#include "lock/history.hpp"
#include "lock/lease.hpp"
#include "util/text.hpp"
#include "util/utf8.hpp"

namespace dlock {
namespace {

asio::awaitable<std::vector<LockHistory>> look(LockInspector& inspector,
                                               const std::string& name_space,
                                               const HistoryOptions& options,
                                               Wakeup& wakeup) {
  if (!options.name) {
    const auto matches = [&](const std::string& name) {
      return matches_glob(options.pattern, name);
    };
    co_return co_await inspector.histories(name_space, matches, wakeup);
  }
  LockHistory history;
  history.lock = {name_space, *options.name};
  history.runs = co_await inspector.history(history.lock, wakeup);
  if (options.since) {
    const auto info = co_await inspector.inspect(history.lock, wakeup);
    history.now = info.now;
  }
  std::vector<LockHistory> histories;
  histories.push_back(std::move(history));
  co_return histories;
}

bool is_wanted(const RunInfo& run, const HistoryOptions& options, WallTime now) {
  if (options.failed && (is_running(run) || is_by_hand(run) || is_success(run))) {
    return false;
  }
  if (!options.means(run, run)) return false;
  return !options.since || is_recent(run.started, *options.since, now);
}

// The runs to list, the last started first.
std::vector<RunOfLock> wanted_of(const std::vector<LockHistory>& histories,
                                 const HistoryOptions& options) {
  std::vector<RunOfLock> wanted;
  for (const auto& history : histories) {
    for (const auto& run : history.runs) {
      if (is_wanted(run, options, history.now))
        wanted.push_back({history.lock.name, run});
    }
  }
  std::ranges::stable_sort(wanted, std::ranges::greater(),
                           [](const RunOfLock& one) { return one.run.started; });
  wanted.resize(std::min<std::size_t>(wanted.size(), options.limit));
  return wanted;
}

ExitStatus show_runs(const CommonOptions& common, const HistoryOptions& options) {
  StoreClient client(common, options.name.value_or(""));
  auto histories = client.call([&](Store& store, Wakeup& wakeup) {
    return look(store.inspector(), common.name_space, options, wakeup);
  });
  MissedEnds missed(client->url());
  for (auto& history : histories) {
    for (auto& run : history.runs) missed.complete(history.lock, run);
  }
  const auto runs = wanted_of(histories, options);
  const auto names = options.name ? Names::left_out : Names::shown;
  if (common.json) {
    Json all = Json::array();
    for (const auto& run : runs) all.push_back(json_of(run, names));
    print(to_line(all) + "\n");
  } else if (!runs.empty()) {
    print(
        history_text(runs, wall_now(), format_of_output(use_color(common.color)), names));
  } else if (client->inspector().left_out().empty()) {
    const bool is_choice = options.failed || options.since || !options.means_all();
    Speaker(options.name.value_or(""), common.quiet, common.verbose)
        .warning((is_choice ? "no matching runs are recorded in "
                            : "no runs are recorded in ") +
                 printable(client->url()));
  }
  return report_left_out(client->inspector().left_out());
}

ExitStatus ask_for_success(const CommonOptions& common, const HistoryOptions& options) {
  const LockName lock{common.name_space, *options.name};
  StoreClient client(common, lock.name);
  const auto info = client.call([&](Store& store, Wakeup& wakeup) {
    return store.inspector().inspect(lock, wakeup);
  });
  const auto answer = success_within(info, *options.succeeded_within);
  if (options.nagios) {
    print(plugin_line(answer, client->url()) + "\n");
    return answer.is_within ? ExitStatus::success : ExitStatus::critical;
  }
  if (common.json) {
    print(to_line(json_of(answer, client->url())) + "\n");
  } else if (!common.quiet) {
    print(text_of(answer, client->url()) + "\n");
  }
  return answer.is_within ? ExitStatus::success : ExitStatus::not_held;
}

}  // namespace

Exit history_verb(const Invocation& invocation) {
  const auto options = history_options(invocation.settings, invocation.operands);
  if (options.nagios) answer_as_plugin();
  const auto show = options.succeeded_within ? ask_for_success : show_runs;
  if (!options.name) return show(invocation.common, options);
  return about(*options.name, [&] { return show(invocation.common, options); });
}

}  // namespace dlock
