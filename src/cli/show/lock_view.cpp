#include "cli/show/lock_view.hpp"

#include <algorithm>

#include "cli/show/screen.hpp"
#include "util/text.hpp"

namespace dlock {

Json json_of(const HolderInfo& holder) {
  Json json{
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
      {"attached", holder.attached && !holder.foreign},
  };
  if (!holder.foreign) return json;
  for (const auto* unknown :
       {"fence", "slot", "host", "pid", "user", "label", "since", "held_ms"}) {
    json[unknown] = nullptr;
  }
  return json;
}

CalendarPeriod period_of(const RunInfo& run) {
  const auto blank = std::min(run.period.find(' '), run.period.size());
  return {run.period.substr(0, blank),
          run.period.substr(std::min(blank + 1, run.period.size()))};
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
  const auto taker = taker_of(run);
  if (taker && !taker->forced) {
    json["reason"] = loss_name(Loss::broken);
  } else if (!run.reason.empty()) {
    json["reason"] = run.reason;
  }
  if (taker) json["broken_by"] = {{"host", taker->host}, {"user", taker->user}};
  if (!run.label.empty()) json["label"] = run.label;
  if (!run.period.empty()) {
    const auto period = period_of(run);
    json["period"] = period.name;
    json["period_began"] = period.began;
  }
  return json;
}

Json json_of(const LockInfo& lock) {
  Json holders = Json::array();
  for (const auto& holder : lock.holders) holders.push_back(json_of(holder));
  Json waiters = Json::array();
  for (const auto& waiter : lock.waiters) {
    auto& one = waiters.emplace_back(Json{
        {"host", waiter.host},
        {"pid", waiter.pid},
        {"user", waiter.user},
        {"since", rfc3339(waiter.since)},
        {"waiting_ms", waiter.waiting.count()},
    });
    if (!waiter.label.empty()) one["label"] = waiter.label;
    if (waiter.priority != 0) one["priority"] = waiter.priority;
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
      {"last_run", json_or_null(lock.last_run)},
  };
  if (lock.strength) json["strength"] = *lock.strength;
  return json;
}

namespace {

std::string ago(WallTime moment) {
  return for_people(std::max(wall_now() - moment, WallTime(0))) + " ago";
}

std::string last_run_of(const LockInfo& lock, bool color) {
  if (!lock.last_run) return "-";
  const auto& run = *lock.last_run;
  const auto how =
      colored(outcome_of(run), is_failure(run) ? Paint::red : Paint::green, color);
  return how + ", " + ago(run.ended.value_or(run.started));
}

std::string state_of(const LockInfo& lock) {
  if (lock.holders.empty()) return "free";
  if (lock.mode == Mode::shared) return "shared";
  if (lock.slots == 1) return "held";
  return std::to_string(lock.slots - lock.free) + "/" + std::to_string(lock.slots) +
         " held";
}

// What a holder uses the lock for: its command, or why there is none.
std::string use_of(const HolderInfo& holder) {
  const auto broken = holder.broken ? "  (broken)" : "";
  if (is_detached(holder) && holder.for_pid)
    return "(" + renewed_for(holder) + ")" + broken;
  if (is_detached(holder))
    return "(detached, expires in " + time_left(holder) + ")" + broken;
  return printable_command(holder.command) +
         (holder.dlock_gone ? "  (its dlock process has exited)" : "") +
         (holder.run_ended ? "  (ended" + hold_note(holder) + ")" : "") + broken;
}

Table holders_of(const LockInfo& lock) {
  Table table({"HOLDER", "PID", "FOR", "FENCE", "?SLOT", "?LABEL", "COMMAND"});
  for (const auto& holder : lock.holders) {
    if (holder.foreign) {
      table.add({foreign_holder, "-", "-", "-", lock.slots > 1 ? "-" : "", "", "-"});
      continue;
    }
    table.add({owner_text(holder.user, holder.host),
               holder.run_ended ? "-" : std::to_string(holder.pid),
               for_people(holder.held), std::to_string(holder.fence.number),
               lock.slots > 1 ? std::to_string(holder.slot) : "", shown(holder, 40),
               use_of(holder)});
  }
  return table;
}

Table waiters_of(const LockInfo& lock) {
  Table table({"WAITER", "PID", "FOR", "?PRIORITY", "?LABEL"});
  const bool priorities = std::ranges::any_of(lock.waiters, &WaiterInfo::priority);
  for (const auto& waiter : lock.waiters) {
    table.add({owner_text(waiter.user, waiter.host), std::to_string(waiter.pid),
               for_people(waiter.waiting),
               priorities ? std::to_string(waiter.priority) : "", shown(waiter, 40)});
  }
  return table;
}

std::string headline_of(const LockInfo& lock, const std::string& store, bool color) {
  const bool held = !lock.holders.empty();
  std::string text =
      printable_name(lock.lock.name) + "  " +
      colored(held ? "held" : "free", held ? Paint::yellow : Paint::green, color);
  if (!lock.known && !held) text += " (never used), in " + printable(store);
  if (held && lock.mode == Mode::shared) text += ", shared";
  if (lock.slots > 1) {
    text += ", " + std::to_string(lock.free) + " of " + std::to_string(lock.slots) +
            " slots free";
  }
  if (lock.strength) text += ", strength " + std::to_string(*lock.strength);
  return text + "\n";
}

}  // namespace

std::string status_text(const LockInfo& lock, const std::string& store, bool color,
                        std::size_t columns) {
  auto text = headline_of(lock, store, color);
  if (!lock.holders.empty()) text += "\n" + holders_of(lock).text("  ", color, columns);
  if (!lock.waiters.empty()) text += "\n" + waiters_of(lock).text("  ", color, columns);
  if (lock.last_run) {
    const auto& run = *lock.last_run;
    text += "\n  last run: " + last_run_of(lock, color);
    if (run.duration) text += ", took " + for_people(*run.duration);
    text += " on " + printable(run.host, 64) + "\n";
  }
  return text;
}

std::string list_text(const std::vector<LockInfo>& locks, bool color,
                      std::size_t columns) {
  if (locks.empty()) return "";
  Table table({"LOCK", "STATE", "HOLDER", "FOR", "WAITING", "LAST RUN"});
  for (const auto& lock : locks) {
    std::string holder = "-";
    std::string held_for = "-";
    if (!lock.holders.empty()) {
      const auto& first = lock.holders.front();
      holder = first.foreign ? foreign_holder : owner_text(first.user, first.host);
      if (lock.holders.size() > 1) {
        holder += " +" + std::to_string(lock.holders.size() - 1);
      }
      if (!first.foreign) held_for = for_people(first.held);
    }
    table.add({printable_name(lock.lock.name), state_of(lock), holder, held_for,
               std::to_string(lock.waiters.size()), last_run_of(lock, color)});
  }
  return table.text("", color, columns);
}

namespace {

// How the run ended, who took the lock, or what the event is about.
std::string message_of(const Event& event) {
  if (event.taken_by) return taker_text(*event.taken_by);
  if (event.run) {
    return outcome_of(*event.run) +
           (event.run->duration ? ", took " + for_people(*event.run->duration) : "");
  }
  std::string text =
      event.priority == 0 ? "" : "priority " + std::to_string(event.priority);
  if (!event.label.empty()) {
    text += (text.empty() ? "" : ", ") + shown(event);
  }
  if (!event.command.empty()) {
    text += (text.empty() ? "" : ": ") + printable_command(event.command, 200);
  }
  return text;
}

Paint paint_of(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::granted: return Paint::green;
    case Event::Kind::expired:
    case Event::Kind::lost:
    case Event::Kind::broken: return Paint::red;
    case Event::Kind::queued:
    case Event::Kind::left:
    case Event::Kind::released: break;
  }
  return Paint::plain;
}

}  // namespace

Json json_of(const Event& event) {
  const auto run = event.run.value_or(RunInfo{});
  Json json{
      {"time", rfc3339(event.time)},
      {"event", event_name(event.kind)},
      {"name", event.lock.name},
      {"fence", event.fence.number > 0 ? Json(event.fence.number) : Json(nullptr)},
      {"host", text_or_null(event.host)},
      {"pid", event.pid > 0 ? Json(event.pid) : Json(nullptr)},
      {"user", text_or_null(event.user)},
      {"command", event.command},
      {"label", event.host.empty() ? Json(nullptr) : Json(event.label)},
      {"exit_code", or_null(run.exit_code)},
      {"signal", or_null(run.signal)},
      {"duration_ms", or_null(run.duration)},
      {"free", event.free},
      {"message", text_or_null(message_of(event))},
  };
  if (event.priority != 0) json["priority"] = event.priority;
  return json;
}

std::string event_text(const Event& event, bool color) {
  const auto message = message_of(event);
  std::string kind = event_name(event.kind);
  const std::string padding(10 - std::min<std::size_t>(kind.size(), 9), ' ');
  auto text = rfc3339(event.time) + "  " + colored(kind, paint_of(event.kind), color) +
              padding + printable_name(event.lock.name) + "  ";
  if (!event.host.empty()) text += printable(event.host, 64) + ", ";
  if (event.pid > 0) text += "pid " + std::to_string(event.pid) + ", ";
  return text + std::to_string(event.free) + " free" +
         (message.empty() ? "" : ": " + message) + "\n";
}

}  // namespace dlock
