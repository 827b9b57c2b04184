#include "supervise/guardian.hpp"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>

#include "util/failure.hpp"
#include "util/process.hpp"

namespace dlock {
namespace {

using Phase = GuardianPage::Phase;
using Step = GuardianPage::Step;

// How long after the start of the command the guardian wakes up, unless the command has
// ended before. Waking the guardian at once, and then dlock, would take processor time
// from the command's first steps; most short commands have ended by then.
constexpr milliseconds guardian_looks_after{2};

Failure no_guardian(const char* call) {
  return Failure::exhausted("cannot start the guardian: " + why_failed(errno, call));
}

// If setpgid(2) fails, the process never enters its group, and the failure is noticed
// only when it should start.
constexpr milliseconds longest_wait_for_group{1000};

}  // namespace

Guardian::Guardian(const Task& task)
    : tree_(task.plan, CommandTree::Strangers::possible),
      argv_(task.argv),
      paths_(candidates(task.argv.front(), std::getenv("PATH"))) {
  tree_.require_visibility();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw no_guardian("socketpair");
  }
  channel_ = Fd(ends[0]);
  const Fd theirs(ends[1]);
  // Created here, so that a failure is found before the store is contacted.
  timer_ = Fd(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_) throw no_guardian("timerfd_create");
  size_ = sizeof(GuardianPage) + task.environment_size;
  void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw no_guardian("mmap");
  page_ = new (memory) GuardianPage;
  const auto argv = pointers(argv_);
  const auto callers_group = ::getpgrp();
  const auto owner = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    channel_.reset();
    task.streams.close_readers();
    guard({*page_, owner, theirs.get(), timer_.get(), callers_group, task.plan, paths_,
           argv.data(), task.signals, task.streams});
  }
  original_pid_ = pid_;
  if (pid_ < 0) {
    const auto failure = no_guardian("fork");
    ::munmap(page_, size_);
    throw failure;
  }
}

Guardian::~Guardian() {
  dismiss();
  ::munmap(page_, size_);
}

void Guardian::dismiss() {
  const auto phase = page_->phase.load(std::memory_order_acquire);
  if (phase != Phase::running) kill();
  if (page_->has_cgroup.load()) OwnCgroup::of(original_pid_).remove();
}

CommandTree& Guardian::inherited_tree() {
  tree_.inherit(page_->pid,
                page_->has_cgroup.load() ? OwnCgroup::of(original_pid_) : OwnCgroup());
  return tree_;
}

void Guardian::kill() {
  if (pid_ == 0) return;
  // KILL also ends a stopped process. Without the call, it exits as after our death.
  if (::kill(pid_, SIGKILL) != 0) channel_.reset();
  reap(pid_);
  pid_ = 0;
  // The process that was to become the command died with the guardian and is now our
  // child, as is a command that it has not reaped. If it has not run yet, its pid may be
  // unknown, but it is still in the guardian's group.
  if (page_->go.load() == 0) reap_group(original_pid_);
  const bool is_over = page_->phase.load(std::memory_order_acquire) == Phase::over;
  if (page_->pid > 0 && (is_over || !page_->is_becoming.load())) reap(page_->pid);
}

bool Guardian::start_command() {
  page_->told_at = Clock::now();
  if (!set_timer(timer_.get(), page_->told_at + guardian_looks_after)) return false;
  page_->go.store(1);
  ::syscall(SYS_futex, &page_->go, FUTEX_WAKE, 1);
  return true;
}

bool Guardian::set_environment(const std::vector<std::string>& environment) {
  // The table of pointers, followed by the strings.
  auto* table = reinterpret_cast<char**>(page_ + 1);
  const auto table_size = (environment.size() + 1) * sizeof(char*);
  std::size_t needed = sizeof(GuardianPage) + table_size;
  for (const auto& variable : environment) needed += variable.size() + 1;
  if (needed > size_) return false;
  auto* at = reinterpret_cast<char*>(table) + table_size;
  for (std::size_t i = 0; i < environment.size(); ++i) {
    table[i] = at;
    std::memcpy(at, environment[i].c_str(), environment[i].size() + 1);
    at += environment[i].size() + 1;
  }
  table[environment.size()] = nullptr;
  page_->environment = table;
  return true;
}

SpawnFailure Guardian::failure() const {
  switch (page_->failed_at) {
    case Step::exec:
      return failure_of_exec(argv_.front(), paths_, {page_->error, page_->path});
    case Step::too_late:
      return {SpawnFailure::Kind::too_late,
              "too little of the lease was left to start the command"};
    case Step::wait:
      return {SpawnFailure::Kind::no_resources,
              "cannot start the command: its process was killed before the start"};
    case Step::settle:
    case Step::become:
    case Step::fork:
    case Step::none: break;
  }
  return failure_of_fork(page_->error);
}

GuardedSupervisor::GuardedSupervisor(asio::io_context& context, Guardian& guardian,
                                     const SupervisionPlan& plan, SignalInbox& signals,
                                     Wakeup& wakeup,
                                     std::function<void(const std::string&)> say)
    : Supervisor(std::move(say)),
      context_(context),
      guardian_(guardian),
      page_(guardian.page()),
      plan_(plan),
      signals_(signals),
      wakeup_(wakeup) {}

asio::awaitable<std::variant<Spawned, SpawnFailure>> GuardedSupervisor::start(
    StartPlan plan) {
  if (!guardian_.set_environment(plan.environment)) {
    co_return SpawnFailure{SpawnFailure::Kind::no_resources,
                           "the command's environment is too large"};
  }
  extend(plan.deadline);
  channel_.emplace(context_, guardian_.take_channel(), [this] {
    read_channel();
    wakeup_.notify();
  });
  read_channel();
  co_await await_group();
  if (lost_) {
    const auto why =
        "lost the lock (" + loss_name(*lost_) + ") before the command could start";
    co_return SpawnFailure{SpawnFailure::Kind::too_late, why, *lost_};
  }
  const auto early = take_early_signals();
  const bool can_start = !guardian_is_gone_ && page_.phase.load() == Phase::idle;
  if (can_start && !guardian_.start_command()) {
    co_return SpawnFailure{SpawnFailure::Kind::no_resources,
                           "cannot communicate with the guardian process"};
  }
  for (const int signal : early) send(signal, false);
  for (;;) {
    // Signals from here on are for the command, as if it already ran.
    pass_on_signals();
    const auto phase = page_.phase.load(std::memory_order_acquire);
    if (phase == Phase::failed) co_return guardian_.failure();
    if (phase != Phase::idle || (guardian_is_gone_ && page_.is_becoming.load())) {
      reaches_command_ = !plan_.own_group;
      co_return Spawned{page_.pid, page_.not_before, page_.not_after};
    }
    if (guardian_is_gone_) {
      co_return SpawnFailure{SpawnFailure::Kind::no_resources,
                             "the guardian process was killed"};
    }
    co_await wakeup_.wait_until(overdue_at());
    if (Clock::now() >= overdue_at()) guardian_.kill();
  }
}

// Waits until the process that becomes the command is in its group: from then on it is
// certain that signals of the terminal also reach it. It usually is there before the lock
// is granted. Whether the guardian failed or is stopped, or the lease is lost, is noticed
// by the caller.
asio::awaitable<void> GuardedSupervisor::await_group() {
  page_.is_group_awaited.store(true);
  const auto until = std::min(overdue_at(), later(Clock::now(), longest_wait_for_group));
  while (!page_.is_in_group.load() && page_.phase.load() == Phase::idle &&
         !guardian_is_gone_ && !lost_ && Clock::now() < until) {
    co_await wakeup_.wait_until(until);
  }
}

// Takes the signals that have arrived so far; returns those to forward once the command
// may start.
std::vector<int> GuardedSupervisor::take_early_signals() {
  reaches_command_ = !plan_.own_group && !guardian_is_gone_ && page_.is_in_group.load();
  // If Ctrl-Z had stopped the wait and dlock alone was continued, the command would stop.
  if (reaches_command_ && signals_.was_continued()) ::kill(page_.pid, SIGCONT);
  std::vector<int> early;
  while (const auto signal = signals_.next()) {
    if (reaches_command_ && signal->reached_group) {
      // Unless it came before that process was in the group. If it did reach it, it is
      // still pending there, and is delivered only once.
      ::kill(page_.pid, signal->number);
    } else {
      early.push_back(signal->number);
    }
  }
  return early;
}

void GuardedSupervisor::pass_on_signals() {
  while (const auto signal = signals_.next()) {
    send(signal->number, reaches_command_ && signal->reached_group);
    if (signal->number == SIGTSTP) SignalInbox::stop_here();
  }
}

asio::awaitable<Ended> GuardedSupervisor::ended() {
  const auto held = SignalInbox::hold_stops(!plan_.own_group);
  for (;;) {
    pass_on_signals();
    if (page_.phase.load(std::memory_order_acquire) == Phase::over) break;
    if (Clock::now() >= overdue_at()) guardian_is_gone_ = true;
    if (guardian_is_gone_) co_return co_await end_without_guardian();
    if (page_.is_stopping.load()) tell_stopped(known_loss());
    report({page_.refused.load(), page_.stuck.load()});
    co_await wakeup_.wait_until(overdue_at());
  }
  auto ended = ended_with(page_.wait_status);
  ended.timed_out = page_.timed_out;
  // A loss that was reported after the end of the run also counts.
  ended.lost = page_.loss >= 0 ? std::optional(static_cast<Loss>(page_.loss)) : lost_;
  co_return ended;
}

// When the guardian should have reported that it stops the command, or should have killed
// it; after that it is stopped or stuck. It cannot have killed processes that it has no
// permission to kill.
Clock::time_point GuardedSupervisor::overdue_at() const {
  if (deadline_ == Clock::time_point::max() || !plan_.lease || page_.refused.load() > 0) {
    return Clock::time_point::max();
  }
  const auto margin = plan_.lease->margin();
  const auto grace = plan_.lease->grace();
  if (page_.deadline.load() == GuardianPage::ending) return deadline_ - 3 * margin / 4;
  return deadline_ - margin - grace + std::max(grace, margin) / 4;
}

// While the guardian has not said how the run ended.
std::optional<Loss> GuardedSupervisor::known_loss() const {
  const bool in_doubt = page_.deadline.load() == GuardianPage::ending;
  return !lost_ && in_doubt ? Loss::unconfirmed : lost_;
}

// The guardian's children are ours now, and the command died with it, unless it has
// another user id (setuid).
asio::awaitable<Ended> GuardedSupervisor::end_without_guardian() {
  guardian_.kill();
  Ended ended;
  ended.guardian_died = true;
  ended.lost = known_loss();
  if (Clock::now() >= overdue_at()) ended.lost = Loss::unconfirmed;
  auto& tree = guardian_.inherited_tree();
  for (;;) {
    while (signals_.next()) {
      // KILL was already sent to all of them.
    }
    const auto command = state_of_child(page_.pid);
    const bool is_there = command != ChildState::none;  // otherwise its pid was reused
    const auto survivors = tree.kill_all(Clock::now(), is_there);
    const bool lives = is_there && command != ChildState::ended;
    if (tree.is_empty() && !lives) {
      if (is_there) reap(page_.pid);
      co_return ended;
    }
    report(survivors);
    co_await wakeup_.wait_until(Clock::now() + sweep_again);
  }
}

void GuardedSupervisor::read_channel() {
  char words[64];
  for (;;) {
    const auto size = ::recv(channel_->fd(), words, sizeof words, MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size == 0 || (size < 0 && errno != EAGAIN)) guardian_is_gone_ = true;
    if (size <= 0) return;
  }
}

bool GuardedSupervisor::notify_guardian(std::uint8_t word) {
  return channel_ && ::send(channel_->fd(), &word, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

// If the guardian is stopped for so long that this would block, signals are lost, as they
// are for a process that receives the same one twice.
void GuardedSupervisor::send(int signal, bool reached_group) {
  const int base = reached_group ? guardian_message::reached_group : 0;
  notify_guardian(static_cast<std::uint8_t>(base + signal));
}

void GuardedSupervisor::extend(Clock::time_point deadline) {
  const auto wanted = deadline.time_since_epoch().count();
  auto current = page_.deadline.load();
  do {
    if (current == GuardianPage::ending) return;
  } while (!page_.deadline.compare_exchange_weak(current, wanted));
  deadline_ = deadline;
  // The guardian sleeps until the deadline that it knows, which may be never (--on-outage
  // run). If it cannot be notified, it is stopped, and reads the deadline first when it
  // continues.
  if (wanted < current) notify_guardian(guardian_message::sooner);
  wakeup_.notify();
}

void GuardedSupervisor::forfeit(Loss loss) {
  lost_ = loss;
  const auto word =
      static_cast<std::uint8_t>(guardian_message::lost + static_cast<int>(loss));
  // A guardian that cannot be notified must not let the command continue.
  if (!notify_guardian(word)) guardian_.kill();
  wakeup_.notify();
}

}  // namespace dlock
