#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <utility>

#include "cli/run/verb_store.hpp"
#include "cli/show/holder_text.hpp"
#include "cli/show/lock_view.hpp"
#include "cli/show/screen.hpp"
#include "cli/terminal/speaker.hpp"
#include "cli/verbs/breaking.hpp"
#include "cli/verbs/verbs.hpp"
#include "loop/event_loop.hpp"
#include "loop/wakeup.hpp"
#include "store/open.hpp"
#include "util/fd.hpp"
#include "util/text.hpp"
#include "util/utf8.hpp"

namespace dlock {
namespace {

bool can_ask() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1; }

// Whether a line from standard input says yes; end of input, or anything else, means no.
bool says_yes() {
  char line[8];
  if (std::fgets(line, sizeof line, stdin) == nullptr) return false;
  const std::string_view said = line;
  return said == "y\n" || said == "Y\n" || said == "yes\n";
}

// Holders that were there a moment ago. Another run may hold the lock by now.
std::string no_longer_held(const std::vector<HolderInfo>& by) {
  const auto& first = by.front();
  return "no longer held by " +
         (first.foreign ? "another program"
                        : "fence " + std::to_string(first.fence.number)) +
         (by.size() > 1 ? " and " + std::to_string(by.size() - 1) + " more" : "");
}

// Asks about what happens to the holders: a lease of acquire has no command.
std::string question(const std::vector<LockInfo>& locks, bool by_force) {
  std::vector<HolderInfo> holders;
  for (const auto& lock : locks) {
    holders.insert(holders.end(), lock.holders.begin(), lock.holders.end());
  }
  const bool is_one = holders.size() == 1;
  const std::string lock = locks.size() == 1 ? "lock" : "locks";
  const auto runs =
      std::ranges::any_of(holders, [](const HolderInfo& h) { return h.attached; });
  std::string text;
  if (!runs) {
    text = "Take the " + lock +
           (is_one ? " from this holder?" : " from all of these holders?");
  } else if (!by_force) {
    text = (is_one ? "Stop this command" : "Stop these commands");
    text += " and take the " + lock + "?";
  } else {
    text = is_one ? "If its machine is alive, this command goes on beside the next one. "
                  : "If their machines are alive, these commands go on beside the next. ";
    text += "Free the " + lock + " at once?";
  }
  return text + " [y/N] ";
}

std::string table_of(const std::vector<LockInfo>& locks) {
  Table table({"LOCK", "HOLDER", "PID", "FOR", "FENCE", "LABEL", "COMMAND"});
  for (const auto& lock : locks) {
    const auto name = printable_name(lock.lock.name);
    for (const auto& holder : lock.holders) {
      if (holder.foreign) {
        table.add({name, foreign_holder, "-", "-", "-", "-", "-"});
        continue;
      }
      const auto or_dash = [](const std::string& text) {
        return text.empty() ? "-" : text;
      };
      table.add({name, owner_text(holder.user, holder.host),
                 holder.run_ended ? "-" : std::to_string(holder.pid),
                 for_people(holder.held), std::to_string(holder.fence.number),
                 or_dash(shown(holder, 40)), or_dash(printable_command(holder.command))});
    }
  }
  return table.text("", false);
}

// Where leases do not expire, the store knows whether the holders are alive.
void require_force_to_be_useful(const Store& store) {
  if (store.leases_expire() || !store.protects()) return;
  throw Failure::unsupported(
      "break --force is for holders on machines that are dead; this store "
      "knows that its holders are alive: break without --force stops them");
}

// Takes all locks that the options name from those who hold them now.
class BreakCommand {
 public:
  BreakCommand(const CommonOptions& common, const BreakOptions& options)
      : common_(common), options_(options) {}

  ExitStatus execute() {
    open();
    if (options_.force) require_force_to_be_useful(*store_);
    const auto locks = held_locks();
    if (!locks.empty() && !options_.yes) {
      if (!is_agreed(locks)) {
        print_taken();
        speaker(is_about_one() ? options_.names.front() : "").error("cancelled");
        note(ExitStatus::not_held);
        return status_;
      }
      // The old connection may have timed out while the user was thinking.
      open();
    }
    take(locks);
    print_taken();
    return status_;
  }

 private:
  bool is_about_one() const {
    return options_.names.size() == 1 && options_.patterns.empty();
  }

  Speaker speaker(const std::string& name) const {
    return {name, common_.quiet, common_.verbose};
  }

  void open() {
    store_ = opened_store(common_, store_timeout(common_, {}), context_,
                          is_about_one() ? options_.names.front() : "");
  }

  // What cannot be read does not keep those from being taken that are known.
  std::vector<LockInfo> held_locks() {
    std::vector<LockInfo> locks;
    std::vector<Failure> failures;
    const auto attempt = [&](auto step) {
      // A store that is silent is not asked for every pattern.
      const bool is_absent =
          !failures.empty() && failures.back().kind() == Failure::Kind::unreachable;
      if (is_absent) return;
      try {
        step();
      } catch (const Failure& failure) {
        failures.push_back(failure);
      }
    };
    attempt([&] { add_named(locks); });
    for (const auto& pattern : options_.patterns) {
      attempt([&] { add_matching(locks, pattern); });
    }
    if (locks.empty() && !failures.empty()) throw Failure(failures.front());
    for (const auto& failure : failures) {
      speaker("").error(failure.what());
      note(status_of(failure.kind()));
    }
    return locks;
  }

  // Returns whether one is added: it may be free, or already among them.
  bool add(std::vector<LockInfo>& locks, LockInfo info) {
    std::erase_if(info.holders,
                  [&](const HolderInfo& holder) { return !is_meant(holder); });
    const bool is_known = std::ranges::count(locks, info.lock, &LockInfo::lock) > 0;
    if (info.holders.empty() || is_known) return false;
    locks.push_back(std::move(info));
    return true;
  }

  // Whether the pattern is the name of a lock that is added: its characters may also
  // stand in names.
  bool add_literal(std::vector<LockInfo>& locks, const std::string& pattern) {
    if (!is_valid({common_.name_space, pattern})) return false;
    auto seen = about(
        pattern, [&] { return look_at_each(common_, *store_, {pattern}, context_); });
    return add(locks, std::move(seen.locks.front()));
  }

  // Adds the locks that the names stand for. Warns of those that are not held, and
  // remembers that in the status.
  void add_named(std::vector<LockInfo>& locks) {
    if (options_.names.empty()) return;
    auto seen = look_at_each(common_, *store_, options_.names, context_);
    note(seen.status);
    for (auto& lock : seen.locks) {
      const auto name = lock.lock.name;
      if (add(locks, std::move(lock))) continue;
      note(ExitStatus::not_held);
      speaker(name).warning(
          (options_.fence ? "not held by fence " + std::to_string(options_.fence->number)
                          : "not held") +
          by_host() + where());
    }
  }

  void add_matching(std::vector<LockInfo>& locks, const std::string& pattern) {
    // All locks of a host, even if one of them has this name.
    const bool is_every_one = !options_.host.empty() && pattern == "*";
    if (!is_every_one && add_literal(locks, pattern)) return;
    auto found = run_blocking(context_, [&] {
      return store_->inspector().list(
          common_.name_space,
          [&](const std::string& name) { return matches_glob(pattern, name); }, wakeup_);
    });
    note(report_left_out(store_->inspector().left_out()));
    bool is_held = false;
    for (auto& lock : found) {
      is_held = is_held || is_meant(lock);
      add(locks, std::move(lock));
    }
    if (is_held) return;
    note(ExitStatus::not_held);
    speaker("").warning("no lock that matches " + printable(pattern, 300) + " is held" +
                        by_host() + where());
  }

  // A failure outranks that a lock is not held, so that an incomplete answer is not taken
  // for a complete one; the first one counts.
  void note(ExitStatus status) {
    const bool is_failure =
        status != ExitStatus::success && status != ExitStatus::not_held;
    if (status_ == ExitStatus::success) status_ = status;
    if (status_ == ExitStatus::not_held && is_failure) status_ = status;
  }

  std::string where() const { return " in " + printable(store_->url()); }

  std::string by_host() const {
    return options_.host.empty() ? "" : " by host " + printable(options_.host, 300);
  }

  bool is_meant(const HolderInfo& holder) const {
    return (!options_.fence || holder.fence == *options_.fence) &&
           (options_.host.empty() || holder.host == options_.host);
  }

  bool is_meant(const LockInfo& lock) const {
    return std::ranges::any_of(
        lock.holders, [&](const HolderInfo& holder) { return is_meant(holder); });
  }

  // Shows the holders and asks for confirmation.
  bool is_agreed(const std::vector<LockInfo>& locks) const {
    if (is_about_one()) {
      for (const auto& holder : locks.front().holders) {
        speaker(locks.front().lock.name).error(described_for_break(holder));
      }
    } else {
      write_all(STDERR_FILENO, table_of(locks));
    }
    write_all(STDERR_FILENO, question(locks, options_.force));
    return says_yes();
  }

  // Tells all holders before it waits for the first, so that they end at the same time.
  void take(const std::vector<LockInfo>& locks) {
    std::vector<Breaking*> told;
    for (const auto& lock : locks) {
      auto& breaking =
          breaking_.emplace_back(context_, *store_, lock, options_.force, common_);
      if (!has_done(breaking, [&] { return breaking.take(); })) continue;
      told.push_back(&breaking);
      if (!breaking.taken().empty()) continue;
      breaking.speaker().warning(no_longer_held(lock.holders));
      note(ExitStatus::not_held);
    }
    for (auto* breaking : told) {
      has_done(*breaking, [&] { return breaking->wait(); });
    }
  }

  // Does one step for a lock of several, and reports why it failed.
  template <typename Step>
  bool has_done(const Breaking& breaking, Step step) {
    try {
      run_blocking(context_, step);
      return true;
    } catch (const Failure& failure) {
      if (is_about_one()) throw;
      breaking.speaker().error(failure.what());
      note(status_of(failure.kind()));
      return false;
    }
  }

  // As JSON, even if there are none.
  void print_taken() const {
    if (!common_.json) return;
    Json all = Json::array();
    for (const auto& breaking : breaking_) {
      for (const auto& holder : breaking.taken()) {
        Json one = Json::object();
        if (!is_about_one()) one["name"] = breaking.lock().name;
        one.update(json_of(holder));
        all.push_back(std::move(one));
      }
    }
    print(to_line(all) + "\n");
  }

  const CommonOptions& common_;
  const BreakOptions& options_;
  EventLoop context_;
  Wakeup wakeup_{context_};
  std::unique_ptr<Store> store_;
  std::deque<Breaking> breaking_;
  ExitStatus status_ = ExitStatus::success;
};

}  // namespace

Exit break_verb(const Invocation& invocation) {
  const auto options = break_options(invocation.settings, invocation.operands);
  if (!options.yes && !can_ask()) {
    throw UsageError(
        "break asks for confirmation on a terminal; elsewhere it needs --yes");
  }
  BreakCommand command(invocation.common, options);
  if (options.names.size() != 1 || !options.patterns.empty()) return command.execute();
  return about(options.names.front(), [&] { return command.execute(); });
}

}  // namespace dlock
