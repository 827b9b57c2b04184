#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "cli/run/verb_store.hpp"
#include "cli/show/lock_view.hpp"
#include "cli/terminal/speaker.hpp"
#include "cli/verbs/verbs.hpp"
#include "loop/run_blocking.hpp"
#include "loop/wakeup.hpp"
#include "store/open.hpp"
#include "util/text.hpp"

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

class Breaking {
 public:
  Breaking(asio::io_context& context, Store& store, LockName lock, bool by_force,
           const Speaker& speaker)
      : wakeup_(context),
        store_(store),
        lock_(std::move(lock)),
        by_force_(by_force),
        speaker_(speaker) {}

  // Takes the lock from these holders and returns them once they are gone.
  asio::awaitable<std::vector<HolderInfo>> take_from(std::vector<Fence> fences);

 private:
  asio::awaitable<std::vector<HolderInfo>> left_of(const std::vector<Fence>& fences);
  asio::awaitable<std::vector<Broken>> tell(const std::vector<Fence>& fences);
  void warn_of_long_wait(const HolderInfo& holder);

  Wakeup wakeup_;
  Store& store_;
  LockName lock_;
  bool by_force_;
  const Speaker& speaker_;
  Clock::time_point began_ = Clock::now();
  OrphanedRuns orphans_;
  bool warned_ = false;
};

asio::awaitable<std::vector<HolderInfo>> Breaking::take_from(std::vector<Fence> fences) {
  std::vector<HolderInfo> taken;
  for (auto& broken : co_await tell(fences)) {
    speaker_.step("broken: " + described(broken.holder));
    taken.push_back(std::move(broken.holder));
  }
  GrowingPause pause(longest_pause, first_pause);
  for (;;) {
    const auto left = co_await left_of(fences_of(taken));
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
  co_return taken;
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

ExitStatus not_held(const Speaker& speaker, const BreakOptions& options,
                    const std::string& store) {
  speaker.warning((options.fence
                       ? "not held by fence " + std::to_string(options.fence->number)
                       : "not held") +
                  " in " + printable(store));
  return ExitStatus::not_held;
}

// For holders that were there a moment ago. Somebody else may hold the lock by now.
ExitStatus no_longer_held(const Speaker& speaker, const std::vector<HolderInfo>& by) {
  const auto& first = by.front();
  speaker.warning(
      "no longer held by " +
      (first.foreign ? "a foreign holder"
                     : "fence " + std::to_string(first.fence.number)) +
      (by.size() > 1 ? " and " + std::to_string(by.size() - 1) + " more" : ""));
  return ExitStatus::not_held;
}

// Asks about what happens to the holders: a lease by hand has no command.
std::string question(const std::vector<HolderInfo>& holders, bool by_force) {
  const bool is_one = holders.size() == 1;
  const auto runs = std::any_of(holders.begin(), holders.end(),
                                [](const HolderInfo& h) { return h.attached; });
  std::string text;
  if (!runs) {
    text = is_one ? "Take the lock from this holder?"
                  : "Take the lock from all of these holders?";
  } else if (!by_force) {
    text = is_one ? "Stop this command and take the lock?"
                  : "Stop these commands and take the lock?";
  } else {
    text = is_one ? "If its machine is alive, this command goes on beside the next one. "
                  : "If their machines are alive, these commands go on beside the next. ";
    text += "Free the lock at once?";
  }
  return text + " [y/N] ";
}

// Shows the holders and asks for confirmation.
bool is_agreed(const Speaker& speaker, const std::vector<HolderInfo>& holders,
               bool by_force) {
  for (const auto& holder : holders) speaker.error(described_for_break(holder));
  write_text(STDERR_FILENO, question(holders, by_force));
  return says_yes();
}

// Where leases do not expire, the store knows whether the holders are alive.
void require_force_to_be_useful(const Store& store) {
  if (store.leases_expire() || !store.protects()) return;
  throw Failure(Failure::Kind::unsupported,
                "break --force is for holders on machines that are dead; this store "
                "knows that its holders are alive: break without --force stops them");
}

ExitStatus break_lock(const CommonOptions& common, const BreakOptions& options) {
  const LockName lock{common.name_space, options.name};
  const Speaker speaker(options.name, common.quiet, common.verbose);
  asio::io_context context(1);
  const auto open = [&] {
    return opened_store(common, store_timeout(common, {}), context, options.name);
  };

  auto store = open();
  if (options.force) require_force_to_be_useful(*store);
  Wakeup wakeup(context);
  auto holders = run_blocking(context, [&] {
                   return store->inspector().inspect(lock, wakeup);
                 }).holders;
  std::erase_if(holders, [&](const HolderInfo& holder) {
    return options.fence && holder.fence != *options.fence;
  });
  // Prints the holders that lost the lock as JSON, even if there are none.
  const auto print_taken = [&](const std::vector<HolderInfo>& taken) {
    Json all = Json::array();
    for (const auto& holder : taken) all.push_back(json_of(holder));
    if (common.json) print(to_line(all) + "\n");
  };
  if (holders.empty()) {
    print_taken({});
    return not_held(speaker, options, store->url());
  }
  if (!options.yes) {
    if (!is_agreed(speaker, holders, options.force)) {
      print_taken({});
      speaker.error("cancelled");
      return ExitStatus::not_held;
    }
    // The old connection may have timed out while the user was thinking.
    store = open();
  }

  // Only the holders that were shown: one that was granted the lock since then is not
  // meant.
  Breaking breaking(context, *store, lock, options.force, speaker);
  const auto broken =
      run_blocking(context, [&] { return breaking.take_from(fences_of(holders)); });
  print_taken(broken);
  return broken.empty() ? no_longer_held(speaker, holders) : ExitStatus::success;
}

}  // namespace

Exit break_verb(const Invocation& invocation) {
  const auto options = break_options(invocation.settings, invocation.operands.at(0));
  if (!options.yes && !can_ask()) {
    throw UsageError(
        "break asks for confirmation on a terminal; elsewhere it needs --yes");
  }
  return about(options.name, [&] { return break_lock(invocation.common, options); });
}

}  // namespace dlock
