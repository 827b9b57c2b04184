#include "supervise/guardian_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "supervise/guardian_child.hpp"
#include "supervise/kill_tree.hpp"
#include "supervise/own_cgroup.hpp"
#include "supervise/process_scan.hpp"
#include "supervise/signal_tree.hpp"
#include "util/fork_into.hpp"
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
      : task_(task), page_(task.page), pid_(::getpid()), ladder_(task.plan, {}) {}

  [[noreturn]] void run() {
    settle();
    if (prepare() && await_start()) {
      while (!is_over()) sleep();
    } else {
      drop_child();
    }
    remove_cgroup();
    await_end();
    ::_exit(0);
  }

 private:
  void settle();
  bool prepare();
  bool await_start();
  void drop_child();
  bool fail(Step step, int error);
  bool is_over();
  void read_channel();
  bool has_launched();
  void look_at_processes();
  bool reap_until_command();
  bool owner_lives() const;
  void look_at_deadline(Clock::time_point now);
  void pass_on(int signal);
  void send_to_tree(int signal, Clock::time_point now);
  void end_tree(Clock::time_point now);
  void finish();
  void remove_cgroup();
  void sleep();
  void doze(int launching, bool blind) const;
  void tell_dlock() const;
  void await_end() const;

  const GuardianTask& task_;
  GuardianPage& page_;
  pid_t pid_;
  Ladder ladder_;
  ProcessScan scan_;
  OwnCgroup cgroup_;
  int settle_error_ = 0;
  // A pipe that closes when exec has succeeded, or the child is gone.
  int launching_ = -1;
  int launching_end_ = -1;  // the child's end
  pid_t command_ = 0;
  bool command_ended_ = false;
  bool has_owner_ = true;
  bool is_ending_ = false;
  Clock::time_point kills_since_ = Clock::time_point::max();
  bool has_news_ = false;  // the command runs, and dlock was not notified yet
  Clock::time_point look_again_ = Clock::time_point::max();
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
  if (!scan_.open()) settle_error_ = errno != 0 ? errno : ENOENT;
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) settle_error_ = errno;
  launching_ = ends[0];
  launching_end_ = ends[1];
  page_.has_cgroup.store(
      true);  // set first, so that no cgroup is left if we are killed now
  cgroup_ = OwnCgroup::create();
  page_.has_cgroup.store(cgroup_.exists());
}

// Forks the process of the command, which then waits to start; false on failure.
bool Process::prepare() {
  if (settle_error_ != 0) return fail(Step::settle, settle_error_);
  page_.not_before = Clock::now();
  GuardianChild child{task_, pid_};
  command_ = fork_into(cgroup_.directory(), &page_.pid);
  if (command_ < 0 && cgroup_.exists()) {
    child.cgroup_to_enter = cgroup_.directory();  // clone3 cannot create it there
    command_ = fork_into(-1, &page_.pid);
  }
  if (command_ == 0) child.run();
  if (command_ < 0) return fail(Step::fork, errno);
  page_.not_after = Clock::now();
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
    doze(-1, false);
    if (page_.go.load() != 0) break;
    if (!owner_lives()) return false;
  }
  // As in the child: whichever is first, both see that it is done.
  ::setpgid(command_, task_.plan.own_group ? command_ : task_.callers_group);
  ladder_ = Ladder(task_.plan, page_.told_at);
  return true;
}

// Whether dlock lives. Its last messages can still be read after its end.
bool Process::owner_lives() const {
  char word = 0;
  const auto size = ::recv(task_.channel, &word, 1, MSG_PEEK | MSG_DONTWAIT);
  const bool is_closed = size == 0 || (size < 0 && errno == ECONNRESET);
  return !is_closed && ::getppid() == task_.owner;
}

// Ends a process that was not allowed to start yet.
void Process::drop_child() {
  if (command_ <= 0) return;
  ::kill(command_, SIGKILL);
  reap(command_);
}

bool Process::fail(Step step, int error) {
  page_.error = error;
  page_.failed_at = step;
  page_.phase.store(Phase::failed, std::memory_order_release);
  tell_dlock();
  return false;
}

// The page contains the message; this only wakes dlock. If that fails, our exit wakes it.
void Process::tell_dlock() const {
  if (has_owner_) ::send(task_.channel, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

// Waits until dlock closes the channel, or ends. The exit of a process takes longer than
// a message, and on a busy machine dlock, and with it the next waiter, would wait for it:
// so the others run first.
void Process::await_end() const {
  char words[64];
  set_timer(task_.timer, Clock::time_point::max());
  while (has_owner_ && owner_lives()) {
    while (::recv(task_.channel, words, sizeof words, MSG_DONTWAIT) > 0) {
    }
    doze(-1, false);
  }
  ::sched_yield();
}

// Does everything that is due now; true if nothing is left to do.
bool Process::is_over() {
  read_channel();
  if (launching_ >= 0 && !has_launched()) return true;
  look_at_processes();
  const auto now = Clock::now();
  look_at_deadline(now);
  switch (ladder_.next(now)) {
    case Ladder::Action::done: finish(); return true;
    case Ladder::Action::send_term:
      send_to_tree(SIGTERM, now);
      tell_dlock();
      break;
    case Ladder::Action::send_kill: end_tree(now); break;
    case Ladder::Action::wait: break;
  }
  // Not earlier, so that a start and an end are reported together. Two messages would
  // wake dlock twice between the command's end and the release.
  if (std::exchange(has_news_, false)) tell_dlock();
  look_again_ = ladder_.look_again(now);
  return false;
}

void Process::read_channel() {
  std::uint8_t words[64];
  while (has_owner_) {
    const bool lives = ::getppid() == task_.owner;
    const auto size = ::recv(task_.channel, words, sizeof words, MSG_DONTWAIT);
    // There is no message, or for example no memory, which does not mean that dlock is
    // gone.
    if (size < 0 && errno != ECONNRESET && lives) return;
    if (size <= 0) {
      has_owner_ = false;
      ladder_.owner_gone(Clock::now());
      return;
    }
    for (auto* word = words; word != words + size; ++word) {
      if (*word >= guardian_message::lost) {
        ladder_.lease_lost(static_cast<Loss>(*word - guardian_message::lost),
                           Clock::now());
      } else if (*word != guardian_message::sooner) {  // the deadline is read anyway
        pass_on(*word);
      }
    }
  }
}

// Whether there is a command, or may still be one.
bool Process::has_launched() {
  char nothing = 0;
  if (::read(launching_, &nothing, 1) != 0) return true;  // not known yet
  ::close(launching_);
  launching_ = -1;
  if (page_.failed_at != Step::none) {
    drop_child();
    return fail(page_.failed_at, page_.error);
  }
  if (!page_.is_becoming.load()) {
    drop_child();
    return fail(Step::wait, 0);
  }
  page_.phase.store(Phase::running, std::memory_order_release);
  has_news_ = true;
  return true;
}

void Process::look_at_processes() {
  // A child that ends before exec was confirmed may be one whose exec failed.
  if (launching_ >= 0) return;
  if (!command_ended_ && reap_until_command()) {
    command_ended_ = true;
    ladder_.command_ended();
  }
  if (command_ended_ && ladder_.needs_tree()) {
    ladder_.tree_is_empty(scan_.is_empty(command_));
  }
}

// Reaps orphans that have ended; true if the command has ended. The command stays
// unreaped to the end, so that its pid and process group are not reused.
bool Process::reap_until_command() {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
      return false;
    }
    if (info.si_pid == command_) return true;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
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

void Process::pass_on(int signal) {
  const auto now = Clock::now();
  if (command_ended_) {
    send_to_tree(signal, now);  // only its stragglers are left, and they are waited for
    return;
  }
  ::kill(task_.plan.own_group ? -command_ : command_, signal);
  ladder_.forwarded(signal, now);
}

// Stops at the moment at which the next step is due.
void Process::send_to_tree(int signal, Clock::time_point now) {
  signal_tree(scan_, signal, {command_, task_.plan.own_group}, ladder_.look_again(now));
}

void Process::end_tree(Clock::time_point now) {
  cgroup_.kill_all();
  const int refused = kill_tree(scan_, {command_, task_.plan.own_group});
  kills_since_ = std::min(kills_since_, now);
  const bool stuck = refused == 0 && now - kills_since_ >= report_stuck_after;
  if (refused == page_.refused.load() && stuck == page_.stuck.load()) return;
  page_.refused.store(refused);
  page_.stuck.store(stuck);
  tell_dlock();
}

void Process::finish() {
  // The cgroup may contain processes that are not descendants of the command.
  if (ladder_.has_sent_term()) cgroup_.kill_all();
  page_.wait_status = wait_status_of(command_);
  page_.timed_out = ladder_.timed_out();
  if (const auto lost = ladder_.lost()) page_.loss = static_cast<int>(*lost);
  page_.phase.store(Phase::over, std::memory_order_release);
  tell_dlock();
  reap(command_);  // now that dlock no longer waits for it
}

void Process::remove_cgroup() {
  if (!cgroup_.exists() || !cgroup_.remove()) return;
  cgroup_ = OwnCgroup();
  page_.has_cgroup.store(false);
}

// Sleeps until an event, or until look_again_. The timer counts suspended time, the
// timeout of ppoll(2) does not; the latter is used only if the timer could not be set.
void Process::sleep() {
  const bool has_end = look_again_ != Clock::time_point::max();
  const bool is_set = set_timer(task_.timer, look_again_);
  doze(launching_, has_end && !is_set);
}

// Sleeps until an event; only briefly if `blind`.
void Process::doze(int launching, bool blind) const {
  pollfd watched[] = {{has_owner_ ? task_.channel : -1, POLLIN, 0},
                      {task_.timer, POLLIN, 0},
                      {launching, POLLIN, 0}};
  const timespec a_moment{0, nanoseconds(longest_blind_sleep).count()};
  sigset_t but_children;
  ::sigfillset(&but_children);
  ::sigdelset(&but_children, SIGCHLD);
  const int ready = ::ppoll(watched, 3, blind ? &a_moment : nullptr, &but_children);
  // For example no memory: pause instead of spinning.
  if (ready < 0 && errno != EINTR) ::nanosleep(&a_moment, nullptr);
}

}  // namespace

void guard(const GuardianTask& task) { Process(task).run(); }

}  // namespace dlock
