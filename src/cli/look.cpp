#include "cli/look.hpp"

#include "cli/about.hpp"
#include "cli/completed.hpp"
#include "cli/live_list.hpp"
#include "cli/lock_view.hpp"
#include "cli/metrics_view.hpp"
#include "cli/speaker.hpp"
#include "util/glob.hpp"

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

ExitStatus status_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  const LockName lock{common.name_space, parsed_name(invocation.operands.at(0))};
  return about(lock.name, [&] {
    asio::io_context context(1);
    Wakeup wakeup(context);
    const auto store = open_store(common.store, store_timeout(common, {}), context);
    const auto info =
        completed(context, [&] { return store->inspector().inspect(lock, wakeup); });
    print(common.json ? to_line(json_of(info)) + "\n"
                      : status_text(info, use_color(common.color), columns_of_output()));
    return info.holders.empty() ? ExitStatus::not_held : ExitStatus::success;
  });
}

namespace {

std::string listed(const std::vector<LockInfo>& locks, ListOptions::Form form,
                   Color color) {
  switch (form) {
    case ListOptions::Form::table:
      return list_text(locks, use_color(color), columns_of_output());
    case ListOptions::Form::metrics: return metrics_text(locks);
    case ListOptions::Form::live:
    case ListOptions::Form::json: break;
  }
  Json all = Json::array();
  for (const auto& lock : locks) all.push_back(json_of(lock));
  return to_line(all) + "\n";
}

}  // namespace

Exit list_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  const auto options = list_options(invocation.settings, invocation.operands);
  if (options.form == ListOptions::Form::live) return live_list_verb(common, options);
  asio::io_context context(1);
  Wakeup wakeup(context);
  const auto store = open_store(common.store, store_timeout(common, {}), context);
  const auto locks = completed(context, [&] {
    return store->inspector().list(
        common.name_space,
        [&](const std::string& name) { return matches_glob(options.pattern, name); },
        wakeup);
  });
  print(listed(locks, options.form, common.color));
  return {};
}

}  // namespace dlock
