#include "tests/simulation/command.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace dlock::simulation {

void SimulatedGuardian::start_command() {
  kernel_.at(kernel_.now + command_.starts_after, [this] {
    if (is_dead || phase != Phase::idle) return;
    phase = may_start() ? Phase::running : Phase::failed;
    if (phase == Phase::failed) return tell();
    ladder_.emplace(plan_, Clock::now());
    is_alive = true;
    started();
    kernel_.at(kernel_.now + command_.runs_for, [this] {
      const auto code = command_.signal ? std::nullopt : std::optional(0);
      end_command(true, code, command_.signal);
    });
    tell();
    look();
  });
}

void SimulatedGuardian::tell() {
  owner_.is_ready = true;
  notify();
}

// As the process that becomes the command does.
bool SimulatedGuardian::may_start() const {
  if (deadline_ == Clock::time_point::max() || !plan_.lease) return true;
  return !is_ending &&
         Clock::now() + plan_.lease->margin() + plan_.lease->grace() < deadline_;
}

void SimulatedGuardian::extend(Clock::time_point deadline) {
  const bool is_sooner = deadline < deadline_;
  deadline_ = deadline;
  if (is_sooner) look();
}

void SimulatedGuardian::lose(Loss loss) {
  losses_.push_back(loss);
  look();
}

void SimulatedGuardian::stop(Time span) { stopped_until_ = kernel_.now + span; }

void SimulatedGuardian::kill() {
  is_dead = true;
  end_command(false, std::nullopt, SIGKILL);
}

void SimulatedGuardian::end_command(bool by_itself, std::optional<int> exit_code,
                                    std::optional<int> signal) {
  if (!is_alive) return;
  is_alive = false;
  end.exit_code = exit_code;
  end.signal = signal;
  ended(by_itself);
  look();
}

void SimulatedGuardian::look() {
  if (is_dead || phase != Phase::running) return;
  if (kernel_.now < stopped_until_) return kernel_.at(stopped_until_, [this] { look(); });
  const auto now = Clock::now();
  for (const auto loss : std::exchange(losses_, {})) ladder_->lease_lost(loss, now);
  if (owner_.is_dead) ladder_->owner_gone(now);
  if (!is_alive) {
    ladder_->command_ended();
    ladder_->tree_is_empty(true);
  }
  ladder_->lease_holds_until(deadline_);
  is_ending = is_ending || ladder_->is_in_doubt(now);
  const auto action = ladder_->next(now);
  if (action == Ladder::Action::done) {
    phase = Phase::over;
    end.timed_out = ladder_->timed_out();
    end.lost = ladder_->lost();
    return tell();
  }
  const bool is_killed = action == Ladder::Action::send_kill;
  const bool is_told = action == Ladder::Action::send_term && command_.obeys_term;
  if ((is_told || is_killed) && !std::exchange(is_dying_, is_killed)) {
    // A busy machine takes up to 60 ms to kill a process.
    const auto span = kernel_.random.spread(microsecond * 100,
                                            is_killed ? 60 * millisecond : 2 * second);
    kernel_.at(kernel_.now + span, [this, is_killed] {
      if (is_killed) return end_command(false, std::nullopt, SIGKILL);
      end_command(false, 0, std::nullopt);  // it handles TERM
    });
  }
  if (action == Ladder::Action::send_term) tell();
  const auto next = ladder_->next_check(now);
  if (next == Clock::time_point::max()) return;
  kernel_.at(next.time_since_epoch().count(), [this] { look(); });
}

SimulatedSupervisor::SimulatedSupervisor(
    SimulatedGuardian& guardian, const SupervisionPlan& plan, Wakeup& wakeup,
    std::function<void(const std::vector<std::string>&)> granted)
    : Supervisor([](const std::string&) {}),
      guardian_(guardian),
      plan_(plan),
      wakeup_(wakeup),
      granted_(std::move(granted)) {
  guardian_.notify = [this] { wakeup_.notify(); };
}

SimulatedSupervisor::~SimulatedSupervisor() {
  guardian_.notify = [] {};
}

asio::awaitable<std::variant<Spawned, SpawnFailure>> SimulatedSupervisor::start(
    StartPlan plan) {
  using Phase = SimulatedGuardian::Phase;
  granted_(plan.environment);
  extend(plan.deadline);
  if (lost_) {
    co_return SpawnFailure{SpawnFailure::Kind::too_late, "lost before the start", *lost_};
  }
  guardian_.start_command();
  for (;;) {
    if (guardian_.phase == Phase::failed) {
      co_return SpawnFailure{SpawnFailure::Kind::too_late, "too little is left"};
    }
    if (guardian_.phase != Phase::idle) co_return Spawned{};
    if (guardian_.is_dead) {
      co_return SpawnFailure{SpawnFailure::Kind::no_resources, "killed"};
    }
    co_await wakeup_.wait_until(overdue_at());
    if (Clock::now() >= overdue_at()) guardian_.kill();
  }
}

asio::awaitable<Ended> SimulatedSupervisor::ended() {
  bool is_gone = false;
  while (guardian_.phase != SimulatedGuardian::Phase::over) {
    is_gone = guardian_.is_dead || Clock::now() >= overdue_at();
    if (is_gone) break;
    co_await wakeup_.wait_until(overdue_at());
  }
  auto end = guardian_.end;
  if (!is_gone) {
    if (!end.lost) end.lost = lost_;
    co_return end;
  }
  const bool is_overdue = Clock::now() >= overdue_at();
  guardian_.kill();
  end = Ended{};
  end.guardian_died = true;
  end.lost = lost_;
  if (is_overdue || (!lost_ && guardian_.is_ending)) end.lost = Loss::unconfirmed;
  co_return end;
}

// As GuardedSupervisor::overdue_at().
Clock::time_point SimulatedSupervisor::overdue_at() const {
  if (deadline_ == Clock::time_point::max() || !plan_.lease) {
    return Clock::time_point::max();
  }
  const auto margin = plan_.lease->margin();
  const auto grace = plan_.lease->grace();
  if (guardian_.is_ending) return deadline_ - 3 * margin / 4;
  return deadline_ - margin - grace + std::max(grace, margin) / 4;
}

void SimulatedSupervisor::extend(Clock::time_point deadline) {
  if (guardian_.is_ending) return;
  deadline_ = deadline;
  guardian_.extend(deadline);
}

void SimulatedSupervisor::forfeit(Loss loss) {
  lost_ = loss;
  guardian_.lose(loss);
}

}  // namespace dlock::simulation
