#include "cli/show/lock_view.hpp"
#include "util/text.hpp"

namespace dlock {

Json json_of(const HolderInfo& holder) {
  if (holder.foreign) {
    return Json{
        {"fence", nullptr},   {"slot", nullptr},
        {"host", nullptr},    {"pid", nullptr},
        {"user", nullptr},    {"command", Json::array()},
        {"label", nullptr},   {"since", nullptr},
        {"held_ms", nullptr}, {"expires_in_ms", or_null(holder.expires_in)},
        {"attached", false},
    };
  }
  return Json{
      {"fence", holder.fence.number},
      {"slot", holder.slot},
      {"host", holder.host},
      {"pid", holder.run_ended ? Json(nullptr) : Json(holder.pid)},
      {"user", holder.user},
      {"command", holder.command},
      {"label", holder.label},
      {"since", rfc3339(holder.since)},
      {"held_ms", holder.held.count()},
      {"expires_in_ms", or_null(holder.expires_in)},
      {"attached", holder.attached},
  };
}

Json json_of(const RunInfo& run) {
  Json json{
      {"started", rfc3339(run.started)},
      {"ended", run.ended ? Json(rfc3339(*run.ended)) : Json(nullptr)},
      {"duration_ms", or_null(run.duration)},
      {"exit_code", or_null(run.exit_code)},
      {"signal", or_null(run.signal)},
      {"host", run.host},
      {"user", run.user},
      {"outcome", run.outcome},
  };
  if (!run.reason.empty()) json["reason"] = run.reason;
  return json;
}

Json json_of(const LockInfo& lock) {
  Json holders = Json::array();
  for (const auto& holder : lock.holders) holders.push_back(json_of(holder));
  Json waiters = Json::array();
  for (const auto& waiter : lock.waiters) {
    waiters.push_back(Json{
        {"host", waiter.host},
        {"pid", waiter.pid},
        {"user", waiter.user},
        {"since", rfc3339(waiter.since)},
        {"waiting_ms", waiter.waiting.count()},
    });
  }
  Json json{
      {"name", lock.lock.name},
      {"state", lock.holders.empty() ? "free" : "held"},
      {"known", lock.known},
      {"mode", lock.mode == Mode::shared ? "shared" : "exclusive"},
      {"slots", lock.slots},
      {"free", lock.free},
      {"holders", std::move(holders)},
      {"waiters", std::move(waiters)},
      {"last_run", lock.last_run ? json_of(*lock.last_run) : Json(nullptr)},
  };
  if (lock.strength) json["strength"] = *lock.strength;
  return json;
}

}  // namespace dlock
