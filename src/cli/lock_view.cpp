#include "cli/lock_view.hpp"

#include <algorithm>

#include "cli/table.hpp"
#include "util/text.hpp"
#include "util/width.hpp"

namespace dlock {
namespace {

// Somebody who uses the same key but is not dlock.
constexpr const char* foreign = "a foreign holder";

std::string owner(const std::string& user, const std::string& host) {
  return printable(user, 64) + "@" + printable(host, 64);
}

bool is_detached(const HolderInfo& holder) { return !holder.attached && !holder.kept; }

std::string left_of(const HolderInfo& holder) {
  return for_people(holder.expires_in.value_or(milliseconds(0)));
}

std::string kept_for(const HolderInfo& holder) {
  return ", kept for another " + left_of(holder);
}

std::string ago(WallTime moment) {
  return for_people(std::max(wall_now() - moment, WallTime(0))) + " ago";
}

std::string described(const HolderInfo& holder, const std::string& command) {
  if (holder.foreign) {
    return std::string(foreign) +
           (holder.expires_in ? ", which ends in " + for_people(*holder.expires_in)
                              : ", which does not end by itself");
  }
  const auto state = holder.kept ? "ended" : "pid " + std::to_string(holder.pid);
  return owner(holder.user, holder.host) + " (" + state +
         (is_detached(holder) || command.empty() ? "" : ", " + command) + ") for " +
         for_people(holder.held) + (holder.kept ? kept_for(holder) : "") +
         (is_detached(holder) ? ", ends in " + left_of(holder) : "");
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

// How the run ended that an event ends, or else what it is about.
std::string message_of(const Event& event) {
  if (event.run) {
    return outcome_of(*event.run) +
           (event.run->duration ? ", took " + for_people(*event.run->duration) : "");
  }
  std::string text = printable(event.label, 60);
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

std::string outcome_of(const RunInfo& run) {
  if (run.signal) return "ended by SIG" + printable(*run.signal, 20);
  if (run.outcome == "ran" && run.exit_code) {
    return "exit " + std::to_string(*run.exit_code);
  }
  const auto reason = run.reason.empty() ? "" : " (" + printable(run.reason, 20) + ")";
  const auto code = run.exit_code ? ", exit " + std::to_string(*run.exit_code) : "";
  return printable(run.outcome, 20) + reason + code;
}

bool is_failure(const RunInfo& run) { return run.outcome != "ran" || run.exit_code != 0; }

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
      {"pid", holder.kept ? Json(nullptr) : Json(holder.pid)},
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
  return Json{
      {"name", lock.lock.name},
      {"state", lock.holders.empty() ? "free" : "held"},
      {"mode", lock.mode == Mode::shared ? "shared" : "exclusive"},
      {"slots", lock.slots},
      {"free", lock.free},
      {"holders", std::move(holders)},
      {"waiters", std::move(waiters)},
      {"last_run", lock.last_run ? json_of(*lock.last_run) : Json(nullptr)},
  };
}

std::string described(const HolderInfo& holder) {
  return described(holder, printable_command(holder.command));
}

std::string described(const RunInfo& run) {
  const auto where = " on " + printable(run.host, 64);
  const auto started = rfc3339(run.started);
  if (run.outcome == "running") return "it is running" + where + " since " + started;
  return "it ran" + where + " at " + started + ": " + outcome_of(run) +
         (run.duration ? ", took " + for_people(*run.duration) : "");
}

std::string refusal_text(const Answer& answer, unsigned slots) {
  if (const auto* differ = std::get_if<SlotsDiffer>(&answer)) {
    return "in use with " + std::to_string(differ->in_use) + " slots, not " +
           std::to_string(slots) + ": all who ask have to name the same number";
  }
  if (const auto* deduplicated = std::get_if<Deduplicated>(&answer)) {
    return described(deduplicated->by);
  }
  const auto* busy = std::get_if<Busy>(&answer);
  if (busy == nullptr) return "held by an outer run";
  if (busy->holders.empty()) return "promised to one who waits";
  auto text = "held by " + described(busy->holders.front());
  if (busy->holders.size() > 1) {
    text += " and " + std::to_string(busy->holders.size() - 1) + " more";
  }
  return text;
}

std::string waiting_text(const Busy& busy, std::size_t columns) {
  const auto place =
      "; place " + std::to_string(busy.place) + " of " + std::to_string(busy.queued);
  if (busy.holders.empty()) return "waiting" + place;
  const auto& holder = busy.holders.front();
  const auto held_by = [&](const std::string& command) {
    return "held by " + described(holder, command) + place;
  };
  const std::string waiting = "waiting: ";
  const auto fits = [&](const std::string& text) { return columns_of(text) <= columns; };
  const auto command = printable_command(holder.command);
  auto whole = waiting + held_by(command);
  if (fits(whole) || holder.foreign) return whole;
  // First less of the command, then none, then only who and since when, then only that.
  constexpr std::size_t least = 4;
  constexpr std::size_t comma = 2;
  const auto room = columns - std::min(columns, columns_of(waiting + held_by("")));
  if (room >= comma + least) return waiting + held_by(cut_to(command, room - comma));
  const auto since = "for " + for_people(holder.held) + place;
  for (const auto& text :
       {waiting + held_by(""), held_by(""),
        "held by " + owner(holder.user, holder.host) + " " + since, "held " + since}) {
    if (fits(text)) return text;
  }
  return place.substr(place.find('p')) + ", held for " + for_people(holder.held);
}

std::string status_text(const LockInfo& lock, bool color, std::size_t columns) {
  const bool held = !lock.holders.empty();
  std::string text =
      printable(lock.lock.name, 255) + "  " +
      colored(held ? "held" : "free", held ? Paint::yellow : Paint::green, color);
  if (held && lock.mode == Mode::shared) text += ", shared";
  if (lock.slots > 1) {
    text += ", " + std::to_string(lock.free) + " of " + std::to_string(lock.slots) +
            " slots free";
  }
  text += "\n";

  if (held) {
    const bool labels =
        std::any_of(lock.holders.begin(), lock.holders.end(),
                    [](const HolderInfo& holder) { return !holder.label.empty(); });
    std::vector<std::string> titles{"HOLDER", "PID", "FOR", "FENCE"};
    if (lock.slots > 1) titles.emplace_back("SLOT");
    if (labels) titles.emplace_back("LABEL");
    titles.emplace_back("COMMAND");
    Table table(std::move(titles));
    for (const auto& holder : lock.holders) {
      if (holder.foreign) {
        table.add({foreign, "-", "-", "-", "-"});
        continue;
      }
      std::vector<std::string> cells{
          owner(holder.user, holder.host), holder.kept ? "-" : std::to_string(holder.pid),
          for_people(holder.held), std::to_string(holder.fence.number)};
      if (lock.slots > 1) cells.push_back(std::to_string(holder.slot));
      if (labels) cells.push_back(printable(holder.label, 40));
      cells.push_back(
          (is_detached(holder)
               ? "(detached, ends in " + left_of(holder) + ")"
               : printable_command(holder.command) +
                     (holder.dlock_gone ? "  (its dlock is gone)" : "") +
                     (holder.kept ? "  (ended" + kept_for(holder) + ")" : "")) +
          (holder.broken ? "  (broken)" : ""));
      table.add(std::move(cells));
    }
    text += "\n" + table.text("  ", color, columns);
  }
  if (!lock.waiters.empty()) {
    Table table({"WAITER", "PID", "FOR"});
    for (const auto& waiter : lock.waiters) {
      table.add({owner(waiter.user, waiter.host), std::to_string(waiter.pid),
                 for_people(waiter.waiting)});
    }
    text += "\n" + table.text("  ", color, columns);
  }
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
      holder = first.foreign ? foreign : owner(first.user, first.host);
      if (lock.holders.size() > 1) {
        holder += " +" + std::to_string(lock.holders.size() - 1);
      }
      if (!first.foreign) held_for = for_people(first.held);
    }
    table.add({printable(lock.lock.name, 255), state_of(lock), holder, held_for,
               std::to_string(lock.waiters.size()), last_run_of(lock, color)});
  }
  return table.text("", color, columns);
}

Json json_of(const Event& event) {
  const auto message = message_of(event);
  return Json{
      {"time", rfc3339(event.time)},
      {"event", event_name(event.kind)},
      {"name", event.lock.name},
      {"fence", event.fence.number > 0 ? Json(event.fence.number) : Json(nullptr)},
      {"host", event.host.empty() ? Json(nullptr) : Json(event.host)},
      {"pid", event.pid > 0 ? Json(event.pid) : Json(nullptr)},
      {"free", event.free},
      {"message", message.empty() ? Json(nullptr) : Json(message)},
  };
}

std::string event_text(const Event& event, bool color) {
  const auto message = message_of(event);
  std::string kind = event_name(event.kind);
  const std::string padding(10 - std::min<std::size_t>(kind.size(), 9), ' ');
  auto text = rfc3339(event.time) + "  " + colored(kind, paint_of(event.kind), color) +
              padding + printable(event.lock.name) + "  ";
  if (!event.host.empty()) text += printable(event.host, 64) + ", ";
  if (event.pid > 0) text += "pid " + std::to_string(event.pid) + ", ";
  return text + std::to_string(event.free) + " free" +
         (message.empty() ? "" : ": " + message) + "\n";
}

}  // namespace dlock
