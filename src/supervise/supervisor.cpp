#include "supervise/supervisor.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace dlock {
namespace {

// After KILL, until all is gone: ends are told by SIGCHLD, but a process that was
// being started during a sweep is only found by another one.
constexpr milliseconds sweep_again{20};

// From TERM to KILL when the lock is certainly not ours any more.
constexpr milliseconds certain_loss_grace{1000};

// Whether a signal that the kernel sent came from the terminal, which sends to its whole
// foreground group; other sources (an alarm, a limit) are this process's own. Only a
// hangup goes to the session's leader alone.
bool reached_the_group(int signal) {
  if (signal == SIGHUP) return ::getsid(0) != ::getpid();
  return signal == SIGINT || signal == SIGQUIT || signal == SIGWINCH || signal == SIGCONT;
}

}  // namespace

Ladder::Ladder(const SupervisionPlan& plan, Clock::time_point started) : plan_(plan) {
  if (plan.timeout) ends_at_ = later(started, *plan.timeout);
}

void Ladder::kill_by(Clock::time_point moment) { kill_at_ = std::min(kill_at_, moment); }

void Ladder::forwarded(int signal, Clock::time_point now) {
  if (signal == SIGTERM && plan_.kill_after_forwarded) {
    kill_by(later(now, plan_.kill_after));
  }
}

void Ladder::lease_lost(Loss loss, Clock::time_point now) {
  if (lost_) return;
  lost_ = loss;
  // Somebody else may hold the lock already: less patience than with a timeout.
  const auto grace = plan_.lease ? plan_.lease->certain_loss_grace()
                                 : std::min(plan_.kill_after, certain_loss_grace);
  kill_by(later(now, grace));
}

void Ladder::lease_holds_until(Clock::time_point deadline) { deadline_ = deadline; }

// max() where nothing runs out.
Clock::time_point Ladder::before_deadline(milliseconds span) const {
  const bool runs_out = plan_.lease && deadline_ != Clock::time_point::max();
  return runs_out ? deadline_ - span : Clock::time_point::max();
}

// When the tree has to be ended though the lease may still be renewed.
Clock::time_point Ladder::in_doubt_at() const {
  return lost_ || !plan_.lease
             ? Clock::time_point::max()
             : before_deadline(plan_.lease->margin() + plan_.lease->grace());
}

Clock::time_point Ladder::kills_at() const {
  return plan_.lease ? std::min(kill_at_, before_deadline(plan_.lease->margin()))
                     : kill_at_;
}

bool Ladder::needs_tree() const {
  return termed_ || (command_ended_ && plan_.stragglers != Stragglers::leave);
}

Ladder::Action Ladder::next(Clock::time_point now) {
  // First of all: that a command has ended is noticed late by one who was stopped, and
  // nobody knows then whether it outlived its lease.
  if (now >= in_doubt_at()) {
    // Renewals may succeed yet; the run is lost all the same, for good.
    lost_ = Loss::unconfirmed;
    kill_by(later(now, plan_.lease->grace()));
  }
  if (command_ended_ && (!needs_tree() || tree_is_empty_)) return Action::done;
  if (!termed_) {
    // A run is over when nothing is left that it waits for.
    const bool runs = !command_ended_ || plan_.stragglers == Stragglers::wait;
    timed_out_ = runs && now >= ends_at_;
    const bool kill_rest = command_ended_ && plan_.stragglers == Stragglers::kill;
    if (timed_out_ || lost_ || kill_rest) {
      termed_ = true;
      kill_by(later(now, plan_.kill_after));
      return Action::send_term;
    }
  }
  if (now < kills_at()) return Action::wait;
  termed_ = true;
  return Action::send_kill;
}

Clock::time_point Ladder::look_again(Clock::time_point now) const {
  const auto kill_at = kills_at();
  if (now >= kill_at) return now + sweep_again;
  if (termed_) return std::min(kill_at, in_doubt_at());
  return std::min({kill_at, ends_at_, in_doubt_at()});
}

Supervisor::Supervisor(SupervisionPlan plan, SignalInbox& signals, Wakeup& wakeup,
                       std::function<void(const std::string&)> say)
    : plan_(plan), signals_(signals), wakeup_(wakeup), say_(std::move(say)) {}

std::variant<Spawned, SpawnFailure> Supervisor::start(SpawnPlan plan,
                                                      Clock::time_point deadline) {
  plan.own_group = plan_.own_group;
  deadline_ = deadline;
  auto started = spawn(plan);
  if (const auto* spawned = std::get_if<Spawned>(&started)) {
    pid_ = spawned->pid;
    ladder_.emplace(plan_, spawned->not_before);
    ladder_->lease_holds_until(deadline);
    while (const auto signal = signals_.next()) send(signal->number);
  }
  return started;
}

asio::awaitable<Ended> Supervisor::ended() {
  for (;;) {
    // A death is looked for after the signal that tells of it was taken.
    while (const auto signal = signals_.next()) pass_on(*signal);
    look_at_processes();
    const auto now = Clock::now();
    const auto action = ladder_->next(now);
    if (action == Ladder::Action::done) break;
    if (action == Ladder::Action::send_term) {
      signal_tree(SIGTERM);
      signal_tree(SIGCONT);  // a stopped process would not notice
    } else if (action == Ladder::Action::send_kill) {
      signal_tree(SIGKILL);
    }
    co_await wakeup_.wait_until(ladder_->look_again(now));
  }
  Ended ended;
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    ended.signal = WTERMSIG(status);
  } else {
    ended.exit_code = WEXITSTATUS(status);
  }
  ended.timed_out = ladder_->timed_out();
  ended.lost = ladder_->lost();
  co_return ended;
}

void Supervisor::look_at_processes() {
  if (!command_ended_ && tree_.reap_until(pid_)) {
    command_ended_ = true;
    ladder_->command_ended();
  }
  if (command_ended_ && ladder_->needs_tree()) {
    ladder_->tree_is_empty(tree_.is_empty(pid_));
  }
}

void Supervisor::pass_on(const Signal& signal) {
  if (!plan_.own_group && signal.from_kernel && reached_the_group(signal.number)) return;
  send(signal.number);
}

void Supervisor::send(int signal) {
  if (signal == SIGCHLD || signal == SIGURG) return;
  if (command_ended_) {
    // Only its stragglers are left, and we wait for them.
    tree_.send(signal, 0);
    return;
  }
  ::kill(plan_.own_group ? -pid_ : pid_, signal);
  ladder_->forwarded(signal, Clock::now());
}

void Supervisor::signal_tree(int signal) {
  // The group at once, so that no shell of it sees its children die first and goes on
  // to the next command.
  if (plan_.own_group) ::kill(-pid_, signal);
  const auto sweep = tree_.send(signal, plan_.own_group ? pid_ : 0);
  if (signal == SIGKILL && sweep.refused > 0 && !said_unkillable_) {
    said_unkillable_ = true;
    say_("cannot end " + std::to_string(sweep.refused) +
         " of the command's processes (no permission); keeping the lock until they are "
         "gone");
  }
}

void Supervisor::extend(Clock::time_point deadline) {
  deadline_ = deadline;
  if (ladder_) ladder_->lease_holds_until(deadline);
  wakeup_.notify();
}

void Supervisor::forfeit(Loss loss) {
  if (ladder_) ladder_->lease_lost(loss, Clock::now());
  wakeup_.notify();
}

bool has_terminal() {
  return static_cast<bool>(Fd(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)));
}

}  // namespace dlock
