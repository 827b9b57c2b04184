#include "cli/verbs/look.hpp"

#include "cli/args/about.hpp"
#include "cli/run/verb_store.hpp"
#include "cli/show/list_order.hpp"
#include "cli/show/live_list.hpp"
#include "cli/show/lock_view.hpp"
#include "cli/show/metrics_view.hpp"
#include "cli/terminal/speaker.hpp"
#include "loop/run_blocking.hpp"
#include "util/glob.hpp"
#include "util/text.hpp"

namespace dlock {
ExitStatus status_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  const LockName lock{common.name_space, parsed_name(invocation.operands.at(0))};
  return about(lock.name, [&] {
    asio::io_context context(1);
    Wakeup wakeup(context);
    const auto store =
        opened_store(common, store_timeout(common, {}), context, lock.name);
    const auto info =
        run_blocking(context, [&] { return store->inspector().inspect(lock, wakeup); });
    print(common.json ? to_line(json_of(info)) + "\n"
                      : status_text(info, store->url(), use_color(common.color),
                                    columns_of_output()));
    return info.holders.empty() ? ExitStatus::not_held : ExitStatus::success;
  });
}

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
  return (options.held ? "no locks are held" : "no locks") + printable(which, 300) +
         " in " + printable(store);
}

}  // namespace

Exit list_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  const auto options = list_options(invocation.settings, invocation.operands);
  if (options.form == ListOptions::Form::live) return live_list_verb(common, options);
  const bool is_metrics = options.form == ListOptions::Form::metrics;
  asio::io_context context(1);
  Wakeup wakeup(context);
  const auto store = opened_store(common, store_timeout(common, {}), context);
  std::vector<LockInfo> locks;
  try {
    locks = run_blocking(context, [&] {
      return store->inspector().list(
          common.name_space,
          [&](const std::string& name) { return matches_glob(options.pattern, name); },
          wakeup);
    });
  } catch (const Failure&) {
    if (is_metrics) print(metrics_text(common.name_space, std::nullopt));
    throw;
  }
  locks = selected(std::move(locks), options);
  if (!locks.empty() || options.form != ListOptions::Form::table) {
    print(is_metrics ? metrics_text(common.name_space, locks)
                     : listed(locks, options.form, common.color));
  } else if (store->inspector().left_out().empty()) {
    Speaker("", common.quiet, common.verbose).warning(none_text(options, store->url()));
  }
  return {code_of(report_left_out(store->inspector())), {}};
}

}  // namespace dlock
