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
#include "supervise/tell_tree.hpp"
#include "util/fork_into.hpp"
#include "util/process.hpp"

namespace dlock {
namespace {

using Phase = GuardianPage::Phase;
using Step = GuardianPage::Step;

// How it is called in lists of processes; the kernel cuts off after 15.
constexpr const char* process_name = "dlock-guardian";

// As nice(2) has it.
constexpr int guardian_priority = -10;

// If the timer could not be set, nothing is slept longer than this.
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
  void hear();
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
  int launching_end_ = -1;  // the child's
  pid_t command_ = 0;
  bool command_ended_ = false;
  bool has_owner_ = true;
  bool is_ending_ = false;
  Clock::time_point kills_since_ = Clock::time_point::max();
  bool has_news_ = false;  // that the command runs, which dlock has not been told
  Clock::time_point look_again_ = Clock::time_point::max();
};

// Everything that may fail comes before the lock is anybody's.
void Process::settle() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  // What ends is told by the end of sleep(), which unblocks it.
  struct sigaction action {};
  action.sa_handler = ignore_child;
  ::sigaction(SIGCHLD, &action, nullptr);
  // Ctrl-Z is not for us.
  if (::setpgid(0, 0) != 0) settle_error_ = errno;
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) settle_error_ = errno;
  // Wakes us, whoever may have dlock's end of the channel open besides.
  if (::prctl(PR_SET_PDEATHSIG, SIGCHLD, 0, 0, 0) != 0) settle_error_ = errno;
  ::prctl(PR_SET_NAME, process_name, 0, 0, 0);
  if (!scan_.open()) settle_error_ = errno != 0 ? errno : ENOENT;
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) settle_error_ = errno;
  launching_ = ends[0];
  launching_end_ = ends[1];
  page_.has_cgroup.store(true);  // first, so that none is left if we are killed now
  cgroup_ = OwnCgroup::made();
  page_.has_cgroup.store(cgroup_.exists());
}

// The process of the command, which then only has to be told; whether there is one.
bool Process::prepare() {
  if (settle_error_ != 0) return fail(Step::settle, settle_error_);
  page_.not_before = Clock::now();
  GuardianChild child{task_, pid_};
  command_ = fork_into(cgroup_.directory(), &page_.pid);
  if (command_ < 0 && cgroup_.exists()) {
    child.cgroup_to_enter = cgroup_.directory();  // it cannot be born there
    command_ = fork_into(-1, &page_.pid);
  }
  if (command_ == 0) child.run();
  if (command_ < 0) return fail(Step::fork, errno);
  page_.not_after = Clock::now();
  // Who has to be in time does not wait for those who keep the processors busy, where
  // that is allowed; only now, for the command is to be no better off.
  ::setpriority(PRIO_PROCESS, 0, guardian_priority);
  ::close(launching_end_);
  if (task_.output >= 0) ::close(task_.output);  // only the command is to have it open
  return true;
}

// Whether the command has been told to start. dlock tells the child, not us: we hear of
// it by the timer, which dlock has set, or by what happens before.
bool Process::await_start() {
  for (;;) {
    doze(-1, false);
    if (page_.go.load() != 0) break;
    if (!owner_lives()) return false;
  }
  // As the child does it: whoever comes first, both know it is done.
  ::setpgid(command_, task_.plan.own_group ? command_ : task_.callers_group);
  ladder_ = Ladder(task_.plan, page_.told_at);
  return true;
}

// Whether dlock lives. What it said before it ended stays to be read.
bool Process::owner_lives() const {
  char word = 0;
  const auto size = ::recv(task_.channel, &word, 1, MSG_PEEK | MSG_DONTWAIT);
  const bool is_closed = size == 0 || (size < 0 && errno == ECONNRESET);
  return !is_closed && ::getppid() == task_.owner;
}

// One that was not told to start.
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

// What is said stands in the page; this only wakes dlock, and if it cannot be woken it
// will be by our end.
void Process::tell_dlock() const {
  if (has_owner_) ::send(task_.channel, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

// Until dlock lets us go, or ends. To end takes longer than to say that there is nothing
// left to do, and on a busy machine dlock, and with it the next in line, would wait for
// it: so the others go first.
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

// Everything there is to do at this moment; whether nothing is left.
bool Process::is_over() {
  hear();
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
  // Not before: what has ended, too, is told at once. Two words would mean two turns of
  // dlock between the command's end and the release, and others may come in between.
  if (std::exchange(has_news_, false)) tell_dlock();
  look_again_ = ladder_.look_again(now);
  return false;
}

void Process::hear() {
  std::uint8_t words[64];
  while (has_owner_) {
    const bool lives = ::getppid() == task_.owner;
    const auto size = ::recv(task_.channel, words, sizeof words, MSG_DONTWAIT);
    // Nothing there; or no memory, say, which is no sign of death.
    if (size < 0 && errno != ECONNRESET && lives) return;
    if (size <= 0) {
      has_owner_ = false;
      ladder_.owner_gone(Clock::now());
      return;
    }
    for (auto* word = words; word != words + size; ++word) {
      if (*word >= tell::lost) {
        ladder_.lease_lost(static_cast<Loss>(*word - tell::lost), Clock::now());
      } else if (*word != tell::sooner) {  // at which we look anyway
        pass_on(*word);
      }
    }
  }
}

// Whether there is, or may yet be, a command.
bool Process::has_launched() {
  char nothing = 0;
  if (::read(launching_, &nothing, 1) != 0) return true;  // nothing is known yet
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
  // What ends before it is known to be the command may be what failed to become it.
  if (launching_ >= 0) return;
  if (!command_ended_ && reap_until_command()) {
    command_ended_ = true;
    ladder_.command_ended();
  }
  if (command_ended_ && ladder_.needs_tree()) {
    ladder_.tree_is_empty(scan_.is_empty(command_));
  }
}

// Reaps orphans that have ended; whether the command has. It stays unreaped to the end,
// so that its number and its group's cannot pass to strangers.
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
    // `never` is max().
    ladder_.lease_holds_until(Clock::time_point(nanoseconds(until)));
    if (!ladder_.is_in_doubt(now)) return;
    // From here on no renewal can make the command live longer than it may.
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

// Not beyond the moment at which the next step is due.
void Process::send_to_tree(int signal, Clock::time_point now) {
  tell_tree(scan_, signal, {command_, task_.plan.own_group}, ladder_.look_again(now));
}

void Process::end_tree(Clock::time_point now) {
  cgroup_.kill_all();
  const int refused = kill_tree(scan_, {command_, task_.plan.own_group});
  kills_since_ = std::min(kills_since_, now);
  const bool fled = refused == 0 && now - kills_since_ >= fled_after;
  if (refused == page_.refused.load() && fled == page_.fled.load()) return;
  page_.refused.store(refused);
  page_.fled.store(fled);
  tell_dlock();
}

void Process::finish() {
  // What may be in there without being the command's descendant.
  if (ladder_.has_termed()) cgroup_.kill_all();
  page_.wait_status = wait_status_of(command_);
  page_.timed_out = ladder_.timed_out();
  if (const auto lost = ladder_.lost()) page_.loss = static_cast<int>(*lost);
  page_.phase.store(Phase::over, std::memory_order_release);
  tell_dlock();
  reap(command_);  // now that nobody waits for it
}

void Process::remove_cgroup() {
  if (!cgroup_.exists() || !cgroup_.remove()) return;
  cgroup_ = OwnCgroup();
  page_.has_cgroup.store(false);
}

// Until something happens, or look_again_. The timer counts suspend, which the time limit
// of ppoll(2) does not; that one is for a timer that could not be set.
void Process::sleep() {
  const bool has_end = look_again_ != Clock::time_point::max();
  const bool is_set = set_timer(task_.timer, look_again_);
  doze(launching_, has_end && !is_set);
}

// Until something happens, but if `blind` not for long.
void Process::doze(int launching, bool blind) const {
  pollfd watched[] = {{has_owner_ ? task_.channel : -1, POLLIN, 0},
                      {task_.timer, POLLIN, 0},
                      {launching, POLLIN, 0}};
  const timespec a_moment{0, nanoseconds(longest_blind_sleep).count()};
  sigset_t but_children;
  ::sigfillset(&but_children);
  ::sigdelset(&but_children, SIGCHLD);
  const int ready = ::ppoll(watched, 3, blind ? &a_moment : nullptr, &but_children);
  // No memory for it, say: no reason to spin.
  if (ready < 0 && errno != EINTR) ::nanosleep(&a_moment, nullptr);
}

}  // namespace

void guard(const GuardianTask& task) { Process(task).run(); }

}  // namespace dlock
