#include "cli/look.hpp"

#include <fnmatch.h>

#include "cli/completed.hpp"
#include "cli/lock_view.hpp"
#include "cli/speaker.hpp"

namespace dlock {
ExitStatus status_of(Failure::Kind kind) {
  switch (kind) {
    case Failure::Kind::rejected: return ExitStatus::permission;
    case Failure::Kind::misconfigured: return ExitStatus::misconfigured;
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
  asio::io_context context(1);
  Wakeup wakeup(context);
  const auto store = open_store(common.store, store_timeout(common, {}), context);
  const auto info = completed(context, [&] { return store->inspect(lock, wakeup); });
  print(common.json ? to_line(json_of(info)) + "\n"
                    : status_text(info, use_color(common.color)));
  return info.holders.empty() ? ExitStatus::not_held : ExitStatus::success;
}

ExitStatus list_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  const std::string pattern =
      invocation.operands.empty() ? "*" : invocation.operands.front();
  asio::io_context context(1);
  Wakeup wakeup(context);
  const auto store = open_store(common.store, store_timeout(common, {}), context);
  const auto locks = completed(context, [&] {
    return store->list(
        common.name_space,
        [&](const std::string& name) {
          return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
        },
        wakeup);
  });
  if (common.json) {
    Json all = Json::array();
    for (const auto& lock : locks) all.push_back(json_of(lock));
    print(to_line(all) + "\n");
  } else {
    print(list_text(locks, use_color(common.color)));
  }
  return ExitStatus::success;
}

}  // namespace dlock
