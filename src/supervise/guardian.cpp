#include "supervise/guardian.hpp"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>

#include "supervise/guardian_process.hpp"
#include "util/failure.hpp"
#include "util/process.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

using Phase = GuardianPage::Phase;
using Step = GuardianPage::Step;

// How long after the start of the command the guardian wakes up, unless the command has
// ended before. Waking the guardian at once, and then dlock, would take processor time
// from the command's first steps; most short commands have ended by then.
constexpr milliseconds guardian_looks_after{2};

Failure no_guardian(const char* step) {
  return Failure(Failure::Kind::exhausted, std::string("cannot start the guardian: ") +
                                               step + ": " + std::strerror(errno));
}

}  // namespace

Guardian::Guardian(const Task& task)
    : argv_(task.argv), paths_(candidates(task.argv.front(), std::getenv("PATH"))) {
  tree_.require_visibility();
  size_ = sizeof(GuardianPage) + task.environment_size;
  void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw no_guardian("mmap");
  page_ = new (memory) GuardianPage;

  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    const auto failure = no_guardian("socketpair");
    ::munmap(page_, size_);
    throw failure;
  }
  channel_ = Fd(ends[0]);
  const Fd theirs(ends[1]);
  // Created here, so that a failure is found before the store is contacted.
  timer_ = Fd(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  const auto argv = pointers(argv_);
  const auto callers_group = ::getpgrp();
  const auto owner = ::getpid();
  pid_ = timer_ ? ::fork() : -1;
  if (pid_ == 0) {
    channel_.reset();
    if (task.output_reader >= 0) ::close(task.output_reader);
    guard({*page_, owner, theirs.get(), timer_.get(), callers_group, task.plan, paths_,
           argv.data(), task.signals, task.output});
  }
  original_pid_ = pid_;
  if (pid_ < 0) {
    const auto failure = no_guardian(timer_ ? "fork" : "timerfd");
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
  if (page_->has_cgroup.load()) cgroup().remove();
}

const OwnCgroup& Guardian::cgroup() {
  if (!cgroup_)
    cgroup_ = page_->has_cgroup.load() ? OwnCgroup::of(original_pid_) : OwnCgroup();
  return *cgroup_;
}

void Guardian::kill() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);  // KILL also ends a stopped process
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

}  // namespace dlock
