#include "cli/look.hpp"

#include "cli/about.hpp"
#include "cli/list_order.hpp"
#include "cli/live_list.hpp"
#include "cli/lock_view.hpp"
#include "cli/metrics_view.hpp"
#include "cli/run_blocking.hpp"
#include "cli/speaker.hpp"
#include "util/glob.hpp"
#include "util/text.hpp"

namespace dlock {
ExitStatus status_of(Failure::Kind kind) {
  switch (kind) {
    case Failure::Kind::rejected: return ExitStatus::permission;
    case Failure::Kind::misconfigured:
    case Failure::Kind::unsupported: return ExitStatus::misconfigured;
    case Failure::Kind::exhausted: return ExitStatus::no_resources;
    case Failure::Kind::unreachable:
    case Failure::Kind::interrupted: break;
  }
  return ExitStatus::unavailable;
}

ExitStatus status_of(SpawnFailure::Kind kind) {
  switch (kind) {
    case SpawnFailure::Kind::not_found: return ExitStatus::not_found;
    case SpawnFailure::Kind::not_executable: return ExitStatus::not_executable;
    case SpawnFailure::Kind::no_resources:
    case SpawnFailure::Kind::too_late: break;
  }
  return ExitStatus::no_resources;
}

std::unique_ptr<Store> opened_store(const CommonOptions& common, milliseconds timeout,
                                    asio::io_context& context, const std::string& name) {
  auto store = open_store(common.store, timeout, context);
  const Speaker speaker(name, common.quiet, common.verbose);
  store->report_complaints([speaker](const std::string& message) {
    speaker.warning("warning: not counted: " + message);
  });
  return store;
}

ExitStatus report_left_out(const LockInspector& inspector) {
  auto status = ExitStatus::success;
  for (const auto& failure : inspector.left_out()) {
    Speaker("", false, false).urgent_warning(std::string("warning: ") + failure.what());
    status = status_of(failure.kind());
  }
  return status;
}

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
