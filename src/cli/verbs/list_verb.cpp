#include <optional>
#include <set>

#include "cli/run/missed_ends.hpp"
#include "cli/run/verb_store.hpp"
#include "cli/show/lock_choice.hpp"
#include "cli/show/lock_view.hpp"
#include "cli/show/metrics_view.hpp"
#include "cli/terminal/speaker.hpp"
#include "cli/verbs/list_live.hpp"
#include "cli/verbs/verbs.hpp"
#include "lock/history.hpp"
#include "loop/event_loop.hpp"
#include "loop/wakeup.hpp"
#include "supervise/signals.hpp"
#include "util/text.hpp"
#include "util/utf8.hpp"

namespace dlock {
namespace {

void print_json(const std::vector<LockInfo>& locks) {
  const ShowText show = print;
  Pieces pieces(show);
  const char* before = "[";
  for (const auto& lock : locks) {
    pieces.add(before + to_line(json_of(lock)));
    before = ",";
  }
  pieces.add(locks.empty() ? "[]\n" : "]\n");
  pieces.flush();
}

// Printed on standard error, so that a script that reads standard output need not skip
// it.
std::string none_text(const ListOptions& options, const std::string& store) {
  const auto which = options.pattern == "*" ? "" : " that match " + options.pattern;
  return std::string(options.means_all() ? "no locks" : "no such locks") +
         (options.held ? " are held" : "") + printable(which, 300) + " in " +
         printable(store);
}

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
  auto seen = is_one ? about(names.front(), look) : look();
  MissedEnds missed(store->url());
  Json all = Json::array();
  std::string text;
  bool is_held = false;
  for (auto& info : seen.locks) {
    is_held = is_held || !info.holders.empty();
    if (info.last_run) missed.complete(info.lock, *info.last_run);
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
  StoreClient client(common, "");
  std::vector<LockInfo> locks;
  std::vector<LockHistory> histories;
  std::vector<Failure> left_out;
  const auto matches = [&](const std::string& name) {
    return matches_glob(options.pattern, name);
  };
  try {
    if (is_metrics) {
      histories = client.call([&](Store& store, Wakeup& wakeup) {
        return store.inspector().histories(common.name_space, matches, wakeup);
      });
      left_out = client->inspector().left_out();
    }
    locks = client.call([&](Store& store, Wakeup& wakeup) {
      return store.inspector().list(common.name_space, matches, wakeup);
    });
    // What cannot be read at all is in both.
    std::set<std::string> told;
    for (const auto& failure : left_out) told.insert(failure.what());
    for (const auto& failure : client->inspector().left_out()) {
      if (told.insert(failure.what()).second) left_out.push_back(failure);
    }
  } catch (const Failure&) {
    if (is_metrics) show_metrics(common.name_space, nullptr, {}, print);
    throw;
  }
  locks = selected(std::move(locks), options);
  if (is_metrics) keep_those_of(locks, histories);
  if (is_metrics) {
    show_metrics(common.name_space, &locks, histories, print);
    if (!left_out.empty()) print(incomplete_metric(common.name_space));
  } else if (options.form == ListOptions::Form::json) {
    print_json(locks);
  } else if (!locks.empty()) {
    print(list_text(locks, use_color(common.color), columns_of_output()));
  } else if (left_out.empty()) {
    Speaker("", common.quiet, common.verbose).warning(none_text(options, client->url()));
  }
  return report_left_out(left_out);
}

}  // namespace dlock
