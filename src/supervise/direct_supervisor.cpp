#include "supervise/direct_supervisor.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "util/failure.hpp"
#include "util/process.hpp"

namespace dlock {

DirectSupervisor::DirectSupervisor(std::vector<std::string> argv, SupervisionPlan plan,
                                   SignalInbox& signals, Wakeup& wakeup,
                                   std::function<void(const std::string&)> say)
    : argv_(std::move(argv)),
      plan_(plan),
      signals_(signals),
      wakeup_(wakeup),
      say_(std::move(say)) {}

// Not earlier: the next waiter would have to wait for it.
DirectSupervisor::~DirectSupervisor() {
  if (is_over_) reap(pid_);
  cgroup_.remove();
}

asio::awaitable<std::variant<Spawned, SpawnFailure>> DirectSupervisor::start(
    StartPlan plan) {
  deadline_ = plan.deadline;
  try {
    if (plan_.needs_tree()) tree_.require_visibility();
  } catch (const Failure& failure) {
    co_return SpawnFailure{SpawnFailure::Kind::no_resources, failure.what()};
  }
  SpawnPlan spawn_plan;
  spawn_plan.argv = argv_;
  spawn_plan.environment = std::move(plan.environment);
  spawn_plan.signals = signals_.inherited();
  spawn_plan.own_group = plan_.own_group;
  spawn_plan.session = plan.session;
  spawn_plan.output = plan.output;
  spawn_plan.note = plan.note;
  if (plan_.needs_tree()) cgroup_ = OwnCgroup::create();
  spawn_plan.cgroup = cgroup_.directory();
  auto started = spawn(spawn_plan);
  if (const auto* spawned = std::get_if<Spawned>(&started)) {
    pid_ = spawned->pid;
    ladder_.emplace(plan_, spawned->not_before);
    ladder_->lease_holds_until(deadline_);
    while (const auto signal = signals_.next()) send(signal->number, false);
  }
  co_return started;
}

asio::awaitable<Ended> DirectSupervisor::ended() {
  const SignalInbox::HeldStops stops(!plan_.own_group);
  for (;;) {
    // Dead children are looked for after SIGCHLD was taken, so that none is missed.
    while (const auto signal = signals_.next()) pass_on(*signal);
    look_at_processes();
    const auto now = Clock::now();
    const auto action = ladder_->next(now);
    if (action == Ladder::Action::done) break;
    if (action == Ladder::Action::send_term) {
      // It stops at the moment at which the next step is due.
      tree_.send(SIGTERM, {pid_, plan_.own_group}, ladder_->next_check(now));
    } else if (action == Ladder::Action::send_kill) {
      end_tree(now);
    }
    co_await wakeup_.wait_until(ladder_->next_check(now));
  }
  // The cgroup may contain processes that are not descendants of the command.
  if (ladder_->has_sent_term()) cgroup_.kill_all();
  is_over_ = true;
  auto ended = ended_with(wait_status_of(pid_));
  ended.timed_out = ladder_->timed_out();
  ended.lost = ladder_->lost();
  co_return ended;
}

void DirectSupervisor::look_at_processes() {
  if (!command_ended_ && tree_.reap_until(pid_)) {
    command_ended_ = true;
    ladder_->command_ended();
  }
  if (command_ended_ && ladder_->needs_tree()) {
    ladder_->tree_is_empty(tree_.is_empty(pid_));
  }
}

void DirectSupervisor::pass_on(const Signal& signal) {
  send(signal.number, signal.reached_group);
  if (signal.number == SIGTSTP) SignalInbox::stop_here();
}

void DirectSupervisor::send(int signal, bool reached_group) {
  const auto now = Clock::now();
  ladder_->forwarded(signal, now);
  const auto self = place_of(0);
  const int wanted = passed_on(signal, reached_group, self,
                               command_ended_ ? JobPlace{} : place_of(pid_));
  if (wanted == 0) return;
  TreeRoot root{pid_, plan_.own_group};
  if (!command_ended_) {
    forward(wanted, root);
    return;
  }
  // Only its stragglers are left, and we wait for them.
  if (reached_group) root.told_group = self.group;
  tree_.send(wanted, root, ladder_->next_check(now));
}

void DirectSupervisor::end_tree(Clock::time_point now) {
  cgroup_.kill_all();
  const int refused = tree_.kill({pid_, plan_.own_group});
  kills_since_ = std::min(kills_since_, now);
  const bool stuck = now - kills_since_ >= report_stuck_after;
  if ((refused > 0 || stuck) && !said_survivors_) {
    said_survivors_ = true;
    say_(refused > 0 ? unkillable(refused) : not_gone());
  }
}

void DirectSupervisor::extend(Clock::time_point deadline) {
  deadline_ = deadline;
  if (ladder_) ladder_->lease_holds_until(deadline);
  wakeup_.notify();
}

void DirectSupervisor::forfeit(Loss loss) {
  if (ladder_) ladder_->lease_lost(loss, Clock::now());
  wakeup_.notify();
}

}  // namespace dlock
