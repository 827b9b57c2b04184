#include "supervise/supervisor.hpp"

#include <fcntl.h>

#include <csignal>

#include "util/failure.hpp"
#include "util/fd.hpp"
#include "util/process.hpp"

namespace dlock {

void Supervisor::report(const CommandTree::Survivors& survivors) {
  if ((survivors.refused == 0 && !survivors.stuck) || said_survivors_) return;
  said_survivors_ = true;
  say_(survivors.refused > 0
           ? "cannot kill " + std::to_string(survivors.refused) +
                 " of the command's processes (they belong to another user, or a filter "
                 "(seccomp) refuses kill); keeping the lock until they exit: kill them "
                 "as root"
           : "the command's processes were killed but have not exited, or keep starting "
             "others; keeping the lock until they exit");
}

DirectSupervisor::DirectSupervisor(std::vector<std::string> argv,
                                   const SupervisionPlan& plan, SignalInbox& signals,
                                   Wakeup& wakeup,
                                   std::function<void(const std::string&)> say)
    : Supervisor(std::move(say)),
      argv_(std::move(argv)),
      plan_(plan),
      signals_(signals),
      wakeup_(wakeup),
      tree_(plan, CommandTree::Strangers::possible) {}

// Not earlier: the next waiter would have to wait for it.
DirectSupervisor::~DirectSupervisor() {
  if (is_over_) reap(tree_.command());
  tree_.remove_cgroup();
}

asio::awaitable<std::variant<Spawned, SpawnFailure>> DirectSupervisor::start(
    StartPlan plan) {
  try {
    if (plan_.needs_tree()) tree_.require_visibility();
  } catch (const Failure& failure) {
    co_return SpawnFailure{SpawnFailure::Kind::no_resources, failure.what()};
  }
  if (plan_.needs_tree()) tree_.create_cgroup();
  const SpawnPlan whole{std::move(plan), argv_, signals_.inherited(), plan_.own_group,
                        tree_.cgroup()};
  auto started = spawn(whole);
  if (const auto* spawned = std::get_if<Spawned>(&started)) {
    tree_.adopt(spawned->pid);
    tree_.begin(spawned->not_before);
    tree_.ladder().lease_holds_until(whole.deadline);
    while (const auto signal = signals_.next()) {
      tree_.forward(signal->number, false, place_of(0));
    }
  }
  co_return started;
}

asio::awaitable<Ended> DirectSupervisor::ended() {
  const auto held = SignalInbox::hold_stops(!plan_.own_group);
  for (;;) {
    // Dead children are looked for after SIGCHLD was taken, so that none is missed.
    while (const auto signal = signals_.next()) {
      tree_.forward(signal->number, signal->reached_group, place_of(0));
      if (signal->number == SIGTSTP) SignalInbox::stop_here();
    }
    tree_.look();
    const auto now = Clock::now();
    if (tree_.act(now) == Ladder::Action::done) break;
    if (tree_.ladder().has_sent_term()) tell_stopped(tree_.ladder().lost());
    report(tree_.survivors());
    co_await wakeup_.wait_until(tree_.next_check(now));
  }
  is_over_ = true;
  auto ended = ended_with(wait_status_of(tree_.command()));
  ended.timed_out = tree_.ladder().timed_out();
  ended.lost = tree_.ladder().lost();
  co_return ended;
}

void DirectSupervisor::extend(Clock::time_point deadline) {
  tree_.ladder().lease_holds_until(deadline);
  wakeup_.notify();
}

void DirectSupervisor::forfeit(Loss loss) {
  tree_.ladder().lease_lost(loss, Clock::now());
  wakeup_.notify();
}

bool has_terminal() {
  return static_cast<bool>(Fd(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)));
}

}  // namespace dlock
