#include "cli/show/holder_text.hpp"

#include <unistd.h>

#include "lock/history.hpp"
#include "util/text.hpp"
#include "util/utf8.hpp"

namespace dlock {
namespace {

// "pid 123, nightly copy: ./backup.sh"
std::string use_of(const HolderInfo& holder, const std::string& label,
                   const std::string& command) {
  const auto state = holder.run_ended ? "ended"
                     : holder.for_pid ? renewed_for(holder)
                                      : "pid " + std::to_string(holder.pid);
  const auto runs = is_detached(holder) ? "" : command;
  if (label.empty()) return state + (runs.empty() ? "" : ", " + runs);
  return state + ", " + label + (runs.empty() ? "" : ": " + runs);
}

std::string expiry_note(const HolderInfo& holder) {
  if (holder.is_expiry_unknown) return "";
  return holder.expires_in ? ", expires in " + for_people(*holder.expires_in)
                           : ", does not expire";
}

std::string described(const HolderInfo& holder, const std::string& label,
                      const std::string& command) {
  if (holder.foreign) return std::string(foreign_holder) + expiry_note(holder);
  return owner_text(holder.user, holder.host) + " (" + use_of(holder, label, command) +
         ") for " + for_people(holder.held) +
         (holder.run_ended ? hold_note(holder) : "") +
         (is_detached(holder) && !holder.for_pid ? expiry_note(holder) : "");
}

}  // namespace

std::string owner_text(const std::string& user, const std::string& host) {
  return printable(user, 64) + "@" + printable(host, 64);
}

bool is_detached(const HolderInfo& holder) {
  return !holder.attached && !holder.run_ended;
}

std::string time_left(const HolderInfo& holder) {
  return for_people(holder.expires_in.value_or(milliseconds(0)));
}

std::string hold_note(const HolderInfo& holder) {
  return holder.is_expiry_unknown ? "" : ", held for another " + time_left(holder);
}

std::string renewed_for(const HolderInfo& holder) {
  return "renewed for pid " + std::to_string(holder.pid);
}

std::string shown(const Description& description, std::size_t most) {
  return printable(description.label, most);
}

std::string described(const HolderInfo& holder) {
  return described(holder, shown(holder), printable_command(holder.command));
}

std::string outcome_of(const RunInfo& run) {
  if (is_by_hand(run) && is_running(run)) return "by hand, still held";
  if (run.signal) return "killed by SIG" + printable(*run.signal, 20);
  if (run.outcome == "ran" && run.exit_code) {
    return "exit " + std::to_string(*run.exit_code);
  }
  if (run.outcome == "vanished") return run.outcome + " (end not recorded)";
  const auto reason = run.reason.empty() ? "" : " (" + printable(run.reason, 200) + ")";
  const auto code = run.exit_code ? ", exit " + std::to_string(*run.exit_code) : "";
  return printable(run.outcome, 20) + reason + code;
}

bool is_failure(const RunInfo& run) { return run.outcome != "ran" || run.exit_code != 0; }

std::string described(const RunInfo& run) {
  const auto where = " on " + printable(run.host, 64);
  const auto started = rfc3339(run.started);
  if (run.outcome == "running")
    return "it has been running" + where + " since " + started;
  return "it ran" + where + " at " + started + ": " + outcome_of(run) +
         (run.duration ? ", took " + for_people(*run.duration) : "");
}

std::string withdrawal_failed_text(const Claim& claim, const std::string& why) {
  return "cannot withdraw the request for the lock: " + why +
         "; it may still get the lock, for " + for_people(claim.ttl + claim.lock_delay) +
         " at most";
}

std::string refusal_text(const Answer& answer, unsigned slots) {
  if (const auto* differ = std::get_if<SlotsDiffer>(&answer)) {
    return "in use with " + std::to_string(differ->in_use) +
           (differ->in_use == 1 ? " slot" : " slots") + ", not " + std::to_string(slots) +
           ": all users of a lock must set the same --slots";
  }
  if (const auto* deduplicated = std::get_if<Deduplicated>(&answer)) {
    return described(deduplicated->by);
  }
  if (const auto* superseded = std::get_if<Superseded>(&answer)) {
    const auto& host = superseded->host;
    return "superseded by a newer run" +
           (host.empty() ? ""
                         : " (" + printable(host, 64) + ", pid " +
                               std::to_string(superseded->pid) + ")");
  }
  const auto* busy = std::get_if<Busy>(&answer);
  if (busy == nullptr) return "held by an outer run";
  if (busy->holders.empty()) return "promised to a waiter";
  auto text = "held by " + described(busy->holders.front());
  if (busy->holders.size() > 1) {
    const auto others = busy->holders.size() - 1;
    text += ", and by " + std::to_string(others) + (others == 1 ? " other" : " others");
  }
  return text;
}

std::string after_wait_text(std::optional<milliseconds> wait) {
  if (!wait || *wait == milliseconds::max()) return "";
  return "not acquired within " + for_people(*wait) + ": ";
}

std::string queue_hint(const Answer& answer) {
  const bool is_held = std::holds_alternative<Busy>(answer);
  return is_held && ::isatty(STDERR_FILENO) != 0 ? " (--wait queues)" : "";
}

std::string not_held_text(const LockInfo& lock, Fence fence, milliseconds at_least) {
  for (const auto& holder : lock.holders) {
    if (holder.foreign || holder.fence != fence) continue;
    if (holder.run_ended) return "the run of this grant has ended";
    return "held by this grant only for another " + time_left(holder) + ", not for " +
           for_people(at_least);
  }
  if (lock.holders.empty()) return "no longer held: the lock is free";
  return "no longer held: now held by " + described(lock.holders.front());
}

std::string waiting_text(const Busy& busy, std::size_t columns) {
  const auto place =
      "; position " + std::to_string(busy.place) + " of " + std::to_string(busy.queued);
  if (busy.holders.empty()) return "waiting" + place;
  const auto& holder = busy.holders.front();
  const auto label = shown(holder);
  const auto held_by = [&](const std::string& command) {
    return "held by " + described(holder, label, command) + place;
  };
  const std::string waiting = "waiting: ";
  const auto fits = [&](const std::string& text) { return columns_of(text) <= columns; };
  const auto command = printable_command(holder.command);
  auto whole = waiting + held_by(command);
  if (fits(whole) || holder.foreign) return whole;
  // Shortens the command first, then drops the command, the pid, the label, and finally
  // the owner.
  constexpr std::size_t least = 4;
  constexpr std::size_t comma = 2;
  const auto room = columns - std::min(columns, columns_of(waiting + held_by("")));
  if (room >= comma + least) return waiting + held_by(cut_to(command, room - comma));
  const auto since = "for " + for_people(holder.held) + place;
  const auto owned = "held by " + owner_text(holder.user, holder.host) + " ";
  for (const auto& text : {waiting + held_by(""), held_by("")}) {
    if (fits(text)) return text;
  }
  constexpr std::size_t parentheses = 3;  // with the space behind them
  const auto used = columns_of(owned + since) + parentheses;
  if (!label.empty() && columns >= used + least) {
    return owned + "(" + cut_to(label, columns - used) + ") " + since;
  }
  for (const auto& text :
       {"held by " + described(holder, "", "") + place, owned + since, "held " + since}) {
    if (fits(text)) return text;
  }
  return place.substr(place.find('p')) + ", held for " + for_people(holder.held);
}

namespace {

std::string cause_of(Loss loss, bool on_server,
                     const std::optional<FailedRenewals>& failed,
                     const std::optional<Taker>& taker) {
  switch (loss) {
    case Loss::taken_over: return "another holder got it";
    case Loss::gone:
      return on_server ? "the server no longer knows it (restarted or flushed?)"
                       : "the store no longer knows it (files removed or replaced?)";
    case Loss::failed_over: return "a server that took over did not know it";
    case Loss::broken:
      return taker ? taker_text(*taker) : "it was taken with dlock break";
    case Loss::unconfirmed: break;
  }
  if (!failed) return "its lease was not renewed in time";
  return "its lease could not be renewed for " + for_people(failed->lasted) + " (" +
         failed->why + ")";
}

}  // namespace

std::string taker_text(const Taker& taker) {
  return owner_text(taker.user, taker.host) + " took the lock with " +
         (taker.replaces ? "--replace"
          : taker.forced ? "dlock break --force"
                         : "dlock break");
}

std::string loss_text(Loss loss, CommandFate command, bool on_server,
                      const std::optional<FailedRenewals>& failed,
                      const std::optional<Taker>& taker) {
  const auto cause = cause_of(loss, on_server, failed, taker);
  switch (command) {
    case CommandFate::is_ending: return "stopping the command: " + cause;
    case CommandFate::ended_in_time:
      return "lost the lock: " + cause + ", so the command was stopped " +
             (failed && failed->margin ? for_people(*failed->margin) + " " : "") +
             "before the lease expired";
    case CommandFate::had_ended:
      return "lost the lock before the command ended: " + cause;
    case CommandFate::may_have_outlived:
      return "lost the lock: " + cause +
             "; the lease may have expired before the command ended";
    case CommandFate::was_ended: break;
  }
  return "lost the lock: " + cause + "; the command was stopped";
}

}  // namespace dlock
