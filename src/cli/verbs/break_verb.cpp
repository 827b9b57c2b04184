#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>

#include "cli/run/verb_store.hpp"
#include "cli/show/holder_text.hpp"
#include "cli/show/lock_view.hpp"
#include "cli/show/table.hpp"
#include "cli/terminal/speaker.hpp"
#include "cli/verbs/verbs.hpp"
#include "loop/run_blocking.hpp"
#include "loop/wakeup.hpp"
#include "store/open.hpp"
#include "util/text.hpp"
#include "util/utf8.hpp"

namespace dlock {
namespace {

// The pause between checks whether the lock is free; there is no notification of that.
constexpr milliseconds first_pause{20};
constexpr milliseconds longest_pause{250};

// When to report that a holder takes long to end.
constexpr milliseconds long_wait{10'000};

std::vector<Fence> fences_of(const std::vector<HolderInfo>& holders) {
  std::vector<Fence> fences;
  fences.reserve(holders.size());
  for (const auto& holder : holders) fences.push_back(holder.fence);
  return fences;
}

bool contains(const std::vector<Fence>& fences, Fence fence) {
  return std::find(fences.begin(), fences.end(), fence) != fences.end();
}

bool can_ask() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1; }

// Whether a line from standard input says yes; end of input, or anything else, means no.
bool says_yes() {
  std::string line;
  for (char c = 0; c != '\n';) {
    const auto size = ::read(STDIN_FILENO, &c, 1);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    line += c;
  }
  return line == "y\n" || line == "Y\n" || line == "yes\n";
}

// Describes a holder that is to lose the lock, and what happens to it.
std::string described_for_break(const HolderInfo& holder) {
  const auto who = "held by " + described(holder);
  return holder.foreign ? who + " (not dlock: it is not notified, and continues)" : who;
}

// Takes one lock from its holders.
class Breaking {
 public:
  // From the holders in `info`: one that is granted the lock later is not meant.
  Breaking(asio::io_context& context, Store& store, const LockInfo& info, bool by_force,
           const CommonOptions& common)
      : wakeup_(context),
        store_(store),
        lock_(info.lock),
        fences_(fences_of(info.holders)),
        by_force_(by_force),
        speaker_(lock_.name, common.quiet, common.verbose) {}

  // Tells them. They are those in taken() then.
  asio::awaitable<bool> take();
  // Waits until they are gone.
  asio::awaitable<bool> wait();

  const std::vector<HolderInfo>& taken() const { return taken_; }
  const LockName& lock() const { return lock_; }
  const Speaker& speaker() const { return speaker_; }

 private:
  asio::awaitable<std::vector<HolderInfo>> left_of(const std::vector<Fence>& fences);
  asio::awaitable<std::vector<Broken>> tell(const std::vector<Fence>& fences);
  void warn_of_long_wait(const HolderInfo& holder);

  Wakeup wakeup_;
  Store& store_;
  LockName lock_;
  std::vector<Fence> fences_;
  bool by_force_;
  Speaker speaker_;
  std::vector<HolderInfo> taken_;
  Clock::time_point began_ = Clock::now();
  OrphanedRuns orphans_;
  bool warned_ = false;
};

asio::awaitable<bool> Breaking::take() {
  for (auto& broken : co_await tell(fences_)) {
    speaker_.step("broken: " + described(broken.holder));
    taken_.push_back(std::move(broken.holder));
  }
  co_return true;
}

asio::awaitable<bool> Breaking::wait() {
  GrowingPause pause(longest_pause, first_pause);
  for (;;) {
    const auto left = co_await left_of(fences_of(taken_));
    if (left.empty()) break;
    warn_of_long_wait(left.front());
    co_await wakeup_.sleep_until(later(Clock::now(), pause.next()));
    // Repeats the call if the mark was lost (a server lost its data, and the holder
    // restored its lease), and if there are processes left to end.
    const bool again = std::any_of(
        left.begin(), left.end(),
        [](const HolderInfo& holder) { return !holder.broken || holder.dlock_gone; });
    if (again) co_await tell(fences_of(left));
  }
  co_return true;
}

asio::awaitable<std::vector<HolderInfo>> Breaking::left_of(
    const std::vector<Fence>& fences) {
  auto info = co_await store_.inspector().inspect(lock_, wakeup_);
  std::erase_if(info.holders,
                [&](const HolderInfo& h) { return !contains(fences, h.fence); });
  co_return std::move(info.holders);
}

asio::awaitable<std::vector<Broken>> Breaking::tell(const std::vector<Fence>& fences) {
  const Break order{fences, by_force_};  // has to outlive the call
  auto broken = co_await store_.break_leases(lock_, order, wakeup_);
  for (const auto& one : broken) {
    if (one.holder.dlock_gone) orphans_.end(one);
  }
  co_return broken;
}

void Breaking::warn_of_long_wait(const HolderInfo& holder) {
  if (warned_ || Clock::now() - began_ < long_wait) return;
  warned_ = true;
  speaker_.warning("still " + described_for_break(holder) + "; it was asked to end" +
                   (holder.expires_in
                        ? ", and its lease expires in " + for_people(*holder.expires_in)
                        : ""));
}

// Holders that were there a moment ago. Somebody else may hold the lock by now.
std::string no_longer_held(const std::vector<HolderInfo>& by) {
  const auto& first = by.front();
  return "no longer held by " +
         (first.foreign ? "a foreign holder"
                        : "fence " + std::to_string(first.fence.number)) +
         (by.size() > 1 ? " and " + std::to_string(by.size() - 1) + " more" : "");
}

// Asks about what happens to the holders: a lease by hand has no command.
std::string question(const std::vector<LockInfo>& locks, bool by_force) {
  std::vector<HolderInfo> holders;
  for (const auto& lock : locks) {
    holders.insert(holders.end(), lock.holders.begin(), lock.holders.end());
  }
  const bool is_one = holders.size() == 1;
  const std::string lock = locks.size() == 1 ? "lock" : "locks";
  const auto runs = std::any_of(holders.begin(), holders.end(),
                                [](const HolderInfo& h) { return h.attached; });
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
      const auto command = printable_command(holder.command);
      table.add({name, owner_text(holder.user, holder.host),
                 holder.run_ended ? "-" : std::to_string(holder.pid),
                 for_people(holder.held), std::to_string(holder.fence.number),
                 holder.label.empty() ? "-" : printable(holder.label, 40),
                 command.empty() ? "-" : command});
    }
  }
  return table.text("", false);
}

// Where leases do not expire, the store knows whether the holders are alive.
void require_force_to_be_useful(const Store& store) {
  if (store.leases_expire() || !store.protects()) return;
  throw Failure(Failure::Kind::unsupported,
                "break --force is for holders on machines that are dead; this store "
                "knows that its holders are alive: break without --force stops them");
}

// Takes all locks that the options name from those who hold them now.
class BreakCommand {
 public:
  BreakCommand(const CommonOptions& common, const BreakOptions& options)
      : common_(common), options_(options) {}

  ExitStatus execute();

 private:
  bool is_about_one() const {
    return options_.names.size() == 1 && options_.patterns.empty();
  }
  Speaker speaker(const std::string& name) const {
    return {name, common_.quiet, common_.verbose};
  }
  void open();
  std::vector<LockInfo> held_locks();
  // Returns whether one is added: nobody may hold it, or it is among them already.
  bool add(std::vector<LockInfo>& locks, LockInfo info);
  bool add_named(std::vector<LockInfo>& locks, const std::string& name);
  bool is_agreed(const std::vector<LockInfo>& locks) const;
  void take(const std::vector<LockInfo>& locks);
  // Does one step for a lock of several, and reports why it failed.
  template <typename Step>
  bool has_done(const Breaking& breaking, Step step);
  void print_taken() const;

  const CommonOptions& common_;
  const BreakOptions& options_;
  asio::io_context context_{1};
  Wakeup wakeup_{context_};
  std::unique_ptr<Store> store_;
  std::deque<Breaking> breaking_;
  ExitStatus status_ = ExitStatus::success;
};

void BreakCommand::open() {
  store_ = opened_store(common_, store_timeout(common_, {}), context_,
                        is_about_one() ? options_.names.front() : "");
}

bool BreakCommand::add(std::vector<LockInfo>& locks, LockInfo info) {
  std::erase_if(info.holders, [&](const HolderInfo& holder) {
    return options_.fence && holder.fence != *options_.fence;
  });
  const bool is_known =
      std::any_of(locks.begin(), locks.end(),
                  [&](const LockInfo& other) { return other.lock == info.lock; });
  if (info.holders.empty() || is_known) return false;
  locks.push_back(std::move(info));
  return true;
}

bool BreakCommand::add_named(std::vector<LockInfo>& locks, const std::string& name) {
  const LockName lock{common_.name_space, name};
  return add(locks, run_blocking(context_, [&] {
               return store_->inspector().inspect(lock, wakeup_);
             }));
}

// Warns of names and patterns that are not held, and remembers that in the status.
std::vector<LockInfo> BreakCommand::held_locks() {
  std::vector<LockInfo> locks;
  const auto where = " in " + printable(store_->url());
  for (const auto& name : options_.names) {
    if (add_named(locks, name)) continue;
    status_ = ExitStatus::not_held;
    speaker(name).warning(
        (options_.fence ? "not held by fence " + std::to_string(options_.fence->number)
                        : "not held") +
        where);
  }
  for (const auto& pattern : options_.patterns) {
    // The characters of patterns may also stand in names.
    if (is_valid({common_.name_space, pattern}) && add_named(locks, pattern)) continue;
    auto found = run_blocking(context_, [&] {
      return store_->inspector().list(
          common_.name_space,
          [&](const std::string& name) { return matches_glob(pattern, name); }, wakeup_);
    });
    const auto left_out = report_left_out(store_->inspector());
    if (left_out != ExitStatus::success) status_ = left_out;
    std::erase_if(found, [](const LockInfo& lock) { return lock.holders.empty(); });
    if (found.empty()) {
      if (status_ == ExitStatus::success) status_ = ExitStatus::not_held;
      speaker("").warning("no lock that matches " + printable(pattern, 300) + " is held" +
                          where);
    }
    for (auto& lock : found) add(locks, std::move(lock));
  }
  return locks;
}

// Shows the holders and asks for confirmation.
bool BreakCommand::is_agreed(const std::vector<LockInfo>& locks) const {
  if (is_about_one()) {
    for (const auto& holder : locks.front().holders) {
      speaker(locks.front().lock.name).error(described_for_break(holder));
    }
  } else {
    write_text(STDERR_FILENO, table_of(locks));
  }
  write_text(STDERR_FILENO, question(locks, options_.force));
  return says_yes();
}

template <typename Step>
bool BreakCommand::has_done(const Breaking& breaking, Step step) {
  if (is_about_one()) return run_blocking(context_, step);
  try {
    return run_blocking(context_, step);
  } catch (const Failure& failure) {
    breaking.speaker().error(failure.what());
    status_ = status_of(failure.kind());
    return false;
  }
}

// Tells all holders before it waits for the first, so that they end at the same time.
void BreakCommand::take(const std::vector<LockInfo>& locks) {
  std::vector<Breaking*> told;
  for (const auto& lock : locks) {
    auto& breaking =
        breaking_.emplace_back(context_, *store_, lock, options_.force, common_);
    if (!has_done(breaking, [&] { return breaking.take(); })) continue;
    told.push_back(&breaking);
    if (!breaking.taken().empty()) continue;
    breaking.speaker().warning(no_longer_held(lock.holders));
    if (status_ == ExitStatus::success) status_ = ExitStatus::not_held;
  }
  for (auto* breaking : told) {
    has_done(*breaking, [&] { return breaking->wait(); });
  }
}

// As JSON, even if there are none.
void BreakCommand::print_taken() const {
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

ExitStatus BreakCommand::execute() {
  open();
  if (options_.force) require_force_to_be_useful(*store_);
  const auto locks = held_locks();
  if (!locks.empty() && !options_.yes) {
    if (!is_agreed(locks)) {
      print_taken();
      speaker(is_about_one() ? options_.names.front() : "").error("cancelled");
      return ExitStatus::not_held;
    }
    // The old connection may have timed out while the user was thinking.
    open();
  }
  take(locks);
  print_taken();
  return status_;
}

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
