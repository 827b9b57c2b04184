#include "supervise/guardian_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "supervise/guarded_tree.hpp"
#include "supervise/guardian_child.hpp"
#include "supervise/guardian_owner.hpp"
#include "util/process.hpp"

namespace dlock {
namespace {

using Phase = GuardianPage::Phase;
using Step = GuardianPage::Step;

// Its name in process lists; the kernel truncates it to 15 characters.
constexpr const char* process_name = "dlock-guardian";

// The nice value (nice(2)).
constexpr int guardian_priority = -10;

// The longest sleep if the timer could not be set.
constexpr milliseconds longest_blind_sleep{50};

void ignore_child(int) {}

class Process {
 public:
  explicit Process(const GuardianTask& task)
      : task_(task),
        page_(task.page),
        pid_(::getpid()),
        owner_(task.channel, task.owner),
        tree_(task.plan.own_group),
        ladder_(task.plan, {}) {}

  [[noreturn]] void run() {
    settle();
    if (prepare() && await_start()) {
      while (!is_over()) sleep();
    } else {
      tree_.drop();
    }
    tree_.remove_cgroup(page_.has_cgroup);
    await_end();
    ::_exit(0);
  }

 private:
  void settle();
  bool prepare();
  bool await_start();
  bool fail(Step step, int error);
  bool is_over();
  void read_messages();
  bool has_launched();
  void look_at_processes();
  void look_at_deadline(Clock::time_point now);
  void forward(int signal, bool reached_group);
  void kill_tree(Clock::time_point now);
  void finish();
  void sleep();
  void await_event(int launching, bool is_timed) const;
  void await_end();

  const GuardianTask& task_;
  GuardianPage& page_;
  pid_t pid_;
  GuardianOwner owner_;
  GuardedTree tree_;
  Ladder ladder_;
  int settle_error_ = 0;
  // A pipe that closes when exec has succeeded, or the child is gone.
  int launching_ = -1;
  int launching_end_ = -1;  // the child's end
  bool command_ended_ = false;
  bool is_ending_ = false;
  bool has_news_ = false;  // the command runs, and dlock was not notified yet
  Clock::time_point next_check_ = Clock::time_point::max();
};

// Everything that may fail happens before the lock is granted.
void Process::settle() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  // SIGCHLD ends sleep(), which unblocks it.
  struct sigaction action {};
  action.sa_handler = ignore_child;
  ::sigaction(SIGCHLD, &action, nullptr);
  // Ctrl-Z must not stop the guardian.
  if (::setpgid(0, 0) != 0) settle_error_ = errno;
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) settle_error_ = errno;
  // Wakes us even if another process still has dlock's end of the channel open.
  if (::prctl(PR_SET_PDEATHSIG, SIGCHLD, 0, 0, 0) != 0) settle_error_ = errno;
  ::prctl(PR_SET_NAME, process_name, 0, 0, 0);
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) settle_error_ = errno;
  launching_ = ends[0];
  launching_end_ = ends[1];
  if (const int error = tree_.prepare(page_.has_cgroup)) settle_error_ = error;
}

// Forks the process of the command, which then waits to start; false on failure.
bool Process::prepare() {
  if (settle_error_ != 0) return fail(Step::settle, settle_error_);
  page_.not_before = Clock::now();
  GuardianChild child{task_, pid_};
  const auto command = tree_.fork_command(&page_.pid, child.cgroup_to_enter);
  if (command == 0) child.run();
  if (command < 0) return fail(Step::fork, errno);
  page_.not_after = Clock::now();
  // As in the child: whichever is first, both see that it is done.
  const auto group = task_.plan.own_group ? command : task_.callers_group;
  if (::setpgid(command, group) == 0) page_.is_in_group.store(true);
  if (page_.is_group_awaited.load()) owner_.notify();
  // The guardian must be in time even if the processors are busy, where that is allowed.
  // Only now, so that the command does not inherit the priority.
  ::setpriority(PRIO_PROCESS, 0, guardian_priority);
  ::close(launching_end_);
  if (task_.output >= 0) ::close(task_.output);  // only the command may have it open
  return true;
}

// Whether the command was allowed to start. dlock notifies the child, not the guardian,
// which learns it by the timer that dlock sets, or by an earlier event.
bool Process::await_start() {
  for (;;) {
    await_event(-1, false);
    if (page_.go.load() != 0) break;
    if (!owner_.lives()) return false;
  }
  ladder_ = Ladder(task_.plan, page_.told_at);
  return true;
}

bool Process::fail(Step step, int error) {
  page_.error = error;
  page_.failed_at = step;
  page_.phase.store(Phase::failed, std::memory_order_release);
  owner_.notify();
  return false;
}

// Waits until dlock closes the channel, or ends. The exit of a process takes longer than
// a message, and on a busy machine dlock, and with it the next waiter, would wait for it:
// so the others run first.
void Process::await_end() {
  set_timer(task_.timer, Clock::time_point::max());
  while (!owner_.is_gone() && owner_.lives()) {
    while (owner_.next_message()) {
    }
    await_event(-1, false);
  }
  ::sched_yield();
}

// Does everything that is due now; true if nothing is left to do.
bool Process::is_over() {
  read_messages();
  if (launching_ >= 0 && !has_launched()) return true;
  look_at_processes();
  const auto now = Clock::now();
  look_at_deadline(now);
  switch (ladder_.next(now)) {
    case Ladder::Action::done: finish(); return true;
    case Ladder::Action::send_term:
      // It stops when the next step is due.
      tree_.signal_all(SIGTERM, ladder_.next_check(now));
      owner_.notify();
      break;
    case Ladder::Action::send_kill: kill_tree(now); break;
    case Ladder::Action::wait: break;
  }
  // Not earlier, so that a start and an end are reported together. Two messages would
  // wake dlock twice between the command's end and the release.
  if (std::exchange(has_news_, false)) owner_.notify();
  next_check_ = ladder_.next_check(now);
  return false;
}

void Process::read_messages() {
  if (owner_.is_gone()) return;
  while (const auto word = owner_.next_message()) {
    if (*word >= guardian_message::reached_group) {
      forward(*word - guardian_message::reached_group, true);
    } else if (*word >= guardian_message::lost) {
      ladder_.lease_lost(static_cast<Loss>(*word - guardian_message::lost), Clock::now());
    } else if (*word != guardian_message::sooner) {  // the deadline is read anyway
      forward(*word, false);
    }
  }
  if (owner_.is_gone()) ladder_.owner_gone(Clock::now());
}

// Whether there is a command, or may still be one.
bool Process::has_launched() {
  char nothing = 0;
  if (::read(launching_, &nothing, 1) != 0) return true;  // not known yet
  ::close(launching_);
  launching_ = -1;
  if (page_.failed_at != Step::none) {
    tree_.drop();
    return fail(page_.failed_at, page_.error);
  }
  if (!page_.is_becoming.load()) {
    tree_.drop();
    return fail(Step::wait, 0);
  }
  page_.phase.store(Phase::running, std::memory_order_release);
  has_news_ = true;
  return true;
}

void Process::look_at_processes() {
  // A child that ends before exec was confirmed may be one whose exec failed.
  if (launching_ >= 0) return;
  if (!command_ended_ && tree_.reap_until_command()) {
    command_ended_ = true;
    ladder_.command_ended();
  }
  if (command_ended_ && ladder_.needs_tree()) {
    ladder_.tree_is_empty(tree_.is_empty());
  }
}

void Process::look_at_deadline(Clock::time_point now) {
  if (is_ending_) return;
  auto until = page_.deadline.load();
  for (;;) {
    // `never` means max().
    ladder_.lease_holds_until(Clock::time_point(nanoseconds(until)));
    if (!ladder_.is_in_doubt(now)) return;
    // From here on no renewal can extend the command's time.
    if (page_.deadline.compare_exchange_strong(until, GuardianPage::ending)) break;
  }
  is_ending_ = true;
}

void Process::forward(int signal, bool reached_group) {
  const auto now = Clock::now();
  ladder_.forwarded(signal, now);
  const JobPlace owner{task_.callers_group, ::getsid(0)};
  const int wanted = passed_on(signal, reached_group, owner,
                               command_ended_ ? JobPlace{} : place_of(tree_.command()));
  if (wanted == 0) return;
  if (!command_ended_) {
    tree_.forward(wanted);
    return;
  }
  // Only its stragglers are left, and they are waited for.
  const auto told_group = reached_group ? owner.group : 0;
  tree_.signal_all(wanted, ladder_.next_check(now), told_group);
}

void Process::kill_tree(Clock::time_point now) {
  const auto [refused, stuck] = tree_.kill_all(now);
  if (refused == page_.refused.load() && stuck == page_.stuck.load()) return;
  page_.refused.store(refused);
  page_.stuck.store(stuck);
  owner_.notify();
}

void Process::finish() {
  if (ladder_.has_sent_term()) tree_.kill_cgroup();
  page_.wait_status = wait_status_of(tree_.command());
  page_.timed_out = ladder_.timed_out();
  if (const auto lost = ladder_.lost()) page_.loss = static_cast<int>(*lost);
  page_.phase.store(Phase::over, std::memory_order_release);
  owner_.notify();
  reap(tree_.command());  // now that dlock no longer waits for it
}

// Sleeps until an event, or until next_check_. The timer counts suspended time, the
// timeout of ppoll(2) does not; the latter is used only if the timer could not be set.
void Process::sleep() {
  const bool has_end = next_check_ != Clock::time_point::max();
  const bool is_set = set_timer(task_.timer, next_check_);
  await_event(launching_, has_end && !is_set);
}

// Waits for an event; only briefly if `is_timed`.
void Process::await_event(int launching, bool is_timed) const {
  pollfd watched[] = {
      {owner_.descriptor(), POLLIN, 0}, {task_.timer, POLLIN, 0}, {launching, POLLIN, 0}};
  const timespec a_moment{0, nanoseconds(longest_blind_sleep).count()};
  sigset_t but_children;
  ::sigfillset(&but_children);
  ::sigdelset(&but_children, SIGCHLD);
  const int ready = ::ppoll(watched, 3, is_timed ? &a_moment : nullptr, &but_children);
  // For example no memory: pause instead of spinning.
  if (ready < 0 && errno != EINTR) ::nanosleep(&a_moment, nullptr);
}

}  // namespace

void guard(const GuardianTask& task) { Process(task).run(); }

}  // namespace dlock
