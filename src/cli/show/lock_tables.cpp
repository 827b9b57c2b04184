#include <algorithm>

#include "cli/show/holder_text.hpp"
#include "cli/show/lock_view.hpp"
#include "cli/show/table.hpp"
#include "util/text.hpp"

namespace dlock {
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

bool has_labels(const LockInfo& lock) {
  return std::any_of(lock.holders.begin(), lock.holders.end(),
                     [](const HolderInfo& holder) { return !holder.label.empty(); });
}

// What a holder uses the lock for: its command, or why there is none.
std::string use_of(const HolderInfo& holder) {
  const auto broken = holder.broken ? "  (broken)" : "";
  if (is_detached(holder) && holder.for_pid)
    return "(" + renewed_for(holder) + ")" + broken;
  if (is_detached(holder))
    return "(detached, expires in " + time_left(holder) + ")" + broken;
  return printable_command(holder.command) +
         (holder.dlock_gone ? "  (its dlock process is gone)" : "") +
         (holder.run_ended ? "  (ended" + hold_note(holder) + ")" : "") + broken;
}

Table holders_of(const LockInfo& lock) {
  const bool labels = has_labels(lock);
  std::vector<std::string> titles{"HOLDER", "PID", "FOR", "FENCE"};
  if (lock.slots > 1) titles.emplace_back("SLOT");
  if (labels) titles.emplace_back("LABEL");
  titles.emplace_back("COMMAND");
  Table table(std::move(titles));
  for (const auto& holder : lock.holders) {
    if (holder.foreign) {
      table.add({foreign_holder, "-", "-", "-", "-"});
      continue;
    }
    std::vector<std::string> cells{owner_text(holder.user, holder.host),
                                   holder.run_ended ? "-" : std::to_string(holder.pid),
                                   for_people(holder.held),
                                   std::to_string(holder.fence.number)};
    if (lock.slots > 1) cells.push_back(std::to_string(holder.slot));
    if (labels) cells.push_back(printable(holder.label, 40));
    cells.push_back(use_of(holder));
    table.add(std::move(cells));
  }
  return table;
}

Table waiters_of(const LockInfo& lock) {
  Table table({"WAITER", "PID", "FOR"});
  for (const auto& waiter : lock.waiters) {
    table.add({owner_text(waiter.user, waiter.host), std::to_string(waiter.pid),
               for_people(waiter.waiting)});
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

}  // namespace dlock
