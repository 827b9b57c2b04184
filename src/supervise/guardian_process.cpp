#include "supervise/guardian_process.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "supervise/command_tree.hpp"
#include "supervise/process_title.hpp"
#include "util/call_filter.hpp"
#include "util/process.hpp"

namespace dlock {
namespace {

using Phase = GuardianPage::Phase;
using Step = GuardianPage::Step;

// Its name in process lists; the kernel truncates it to 15 characters. A pattern for
// dlock (`pkill dlock`) must not match it: one of the two has to stop the command in time
// if the other is stopped or killed.
constexpr const char* process_name = "lock-guardian";

// The nice value (nice(2)).
constexpr int guardian_priority = -10;

// The longest sleep if the timer could not be set.
constexpr milliseconds longest_blind_sleep{50};

void ignore_child(int) {}

// dlock as its guardian sees it: whether it lives, and messages from and to it.
// Allocates nothing and never waits.
class GuardianOwner {
 public:
  // `channel`: a stream socket to dlock. `dlock`: its pid, the parent while it lives.
  GuardianOwner(int channel, pid_t dlock) : channel_(channel), dlock_(dlock) {}

  // Whether dlock lives. Its last messages can still be read after its end.
  bool lives() const {
    char word = 0;
    const auto size = ::recv(channel_, &word, 1, MSG_PEEK | MSG_DONTWAIT);
    const bool is_closed = size == 0 || (size < 0 && errno == ECONNRESET);
    return !is_closed && ::getppid() == dlock_;
  }

  // The next message (see guardian_message); nothing if there is none now, or never again
  // because dlock has exited.
  std::optional<std::uint8_t> next_message() {
    if (is_gone_) return std::nullopt;
    const bool has_parent = ::getppid() == dlock_;
    std::uint8_t word = 0;
    const auto size = ::recv(channel_, &word, 1, MSG_DONTWAIT);
    if (size == 1) return word;
    // Any other error means that there is no message, or for example no memory, and not
    // that dlock has exited.
    is_gone_ = size == 0 || errno == ECONNRESET || !has_parent;
    return std::nullopt;
  }

  // Whether dlock has exited and its last message was read.
  bool is_gone() const { return is_gone_; }

  // Wakes dlock, so that it reads the page. If that fails, the end of this process does.
  void notify() const {
    if (!is_gone_) ::send(channel_, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  // Becomes readable when there is a message or dlock has exited; -1 once is_gone().
  int descriptor() const { return is_gone_ ? -1 : channel_; }

 private:
  int channel_;
  pid_t dlock_;
  bool is_gone_ = false;
};

// The process that the guardian forks to become the command.
// Waits until dlock lets it start, then execs the command. If that fails, it writes the
// reason to the page and exits. It also ends when the guardian does.
struct GuardianChild {
  const GuardianTask& task;
  pid_t guardian;
  int cgroup_to_enter = -1;  // -1: it was created inside, or there is none

  [[noreturn]] void run() const {
    // PDEATHSIG depends on the parent thread; the guardian has only one.
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) fail(Step::become, errno);
    if (::getppid() != guardian) ::_exit(127);  // the guardian has already died
    if (cgroup_to_enter >= 0) enter_cgroup(cgroup_to_enter);
    auto& page = task.page;
    const auto group = task.plan.own_group ? 0 : task.callers_group;
    if (::setpgid(0, group) != 0) fail(Step::become, errno);
    page.is_in_group.store(true);
    while (page.go.load() == 0) {
      ::syscall(SYS_futex, &page.go, FUTEX_WAIT, 0, nullptr);
    }
    page.is_becoming.store(true);
    const Launch launch{task.paths,   task.argv,    page.environment,
                        task.signals, task.streams, task.owner};
    launch.restore_signals();
    if (!may_start()) fail(Step::too_late, 0);
    const auto failed = launch.exec();
    fail(Step::exec, failed.number, failed.path);
  }

 private:
  // Whether enough of the lease is left to stop the command in time.
  bool may_start() const {
    const auto until = task.page.deadline.load();
    if (until == GuardianPage::never || !task.plan.lease) return true;
    const auto& lease = *task.plan.lease;
    return until != GuardianPage::ending &&
           Clock::now() + lease.margin() + lease.grace() <
               Clock::time_point(nanoseconds(until));
  }

  [[noreturn]] void fail(Step step, int error, std::size_t path = 0) const {
    task.page.error = error;
    task.page.path = path;
    task.page.failed_at = step;
    ::_exit(127);
  }
};

// The guardian.
class GuardianProcess {
 public:
  explicit GuardianProcess(const GuardianTask& task)
      : task_(task),
        page_(task.page),
        pid_(::getpid()),
        owner_(task.channel, task.owner),
        // It was forked for the command, so all its children are the command's.
        tree_(task.plan, CommandTree::Strangers::none) {}

  [[noreturn]] void run() {
    settle();
    if (prepare() && await_start()) {
      while (!is_over()) sleep();
    } else {
      drop();
    }
    // Processes that are left in it move to the caller's.
    if (tree_.remove_cgroup()) page_.has_cgroup.store(false);
    await_end();
    ::_exit(0);
  }

 private:
  // Everything that may fail happens before the lock is granted.
  void settle() {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    // SIGCHLD ends sleep(), which unblocks it.
    struct sigaction action {};
    action.sa_handler = ignore_child;
    ::sigaction(SIGCHLD, &action, nullptr);
    // Ctrl-Z must not stop the guardian.
    if (::setpgid(0, 0) != 0) settle_error_ = errno;
    // Wakes us even if another process still has dlock's end of the channel open.
    if (::prctl(PR_SET_PDEATHSIG, SIGCHLD, 0, 0, 0) != 0) settle_error_ = errno;
    rename_process(process_name);
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) settle_error_ = errno;
    launching_ = ends[0];
    launching_end_ = ends[1];
    if (const int error = tree_.open()) settle_error_ = error;
    page_.has_cgroup.store(
        true);  // first, so that no cgroup is left if we are killed now
    tree_.create_cgroup();
    page_.has_cgroup.store(tree_.has_cgroup());
  }

  // Forks the process of the command, which then waits to start; false on failure.
  bool prepare() {
    if (settle_error_ != 0) return fail(Step::settle, settle_error_);
    page_.not_before = Clock::now();
    GuardianChild child{task_, pid_};
    const int cgroup = tree_.cgroup();
    auto command = fork_into(cgroup, &page_.pid);
    if (command < 0 && cgroup >= 0) {
      child.cgroup_to_enter = cgroup;  // clone3 cannot create it there
      command = fork_into(-1, &page_.pid);
    }
    if (command == 0) child.run();
    if (command < 0) return fail(Step::fork, errno);
    tree_.adopt(command);
    page_.not_after = Clock::now();
    // As in the child: whichever is first, both see that it is done.
    const auto group = task_.plan.own_group ? command : task_.callers_group;
    if (::setpgid(command, group) == 0) page_.is_in_group.store(true);
    if (page_.is_group_awaited.load()) owner_.notify();
    // The guardian must be in time even if the processors are busy, where that is
    // allowed. Only now, so that the command does not inherit the priority.
    if (!has_call_filter()) ::setpriority(PRIO_PROCESS, 0, guardian_priority);
    ::close(launching_end_);
    task_.streams.close_ends();
    return true;
  }

  // Whether the command was allowed to start. dlock notifies the child, not the guardian,
  // which learns it by the timer that dlock sets, or by an earlier event.
  bool await_start() {
    for (;;) {
      await_event(-1, false);
      if (page_.go.load() != 0) break;
      if (!owner_.lives()) return false;
    }
    tree_.begin(page_.told_at);
    return true;
  }

  bool fail(Step step, int error) {
    page_.error = error;
    page_.failed_at = step;
    page_.phase.store(Phase::failed, std::memory_order_release);
    owner_.notify();
    return false;
  }

  // Does everything that is due now; true if nothing is left to do.
  bool is_over() {
    read_messages();
    if (launching_ >= 0 && !has_launched()) return true;
    // A child that ends before exec was confirmed may be one whose exec failed.
    if (launching_ < 0) tree_.look();
    const auto now = Clock::now();
    look_at_deadline(now);
    const auto action = tree_.act(now);
    if (action == Ladder::Action::done) {
      finish();
      return true;
    }
    has_news_ |= tree_.ladder().has_sent_term() && !page_.is_stopping.exchange(true);
    if (action == Ladder::Action::send_kill) note_survivors();
    // Not earlier, so that a start and an end are reported together. Two messages would
    // wake dlock twice between the command's end and the release.
    if (std::exchange(has_news_, false)) owner_.notify();
    next_check_ = tree_.next_check(now);
    return false;
  }

  void read_messages() {
    if (owner_.is_gone()) return;
    while (const auto word = owner_.next_message()) {
      const bool reached_group = *word >= guardian_message::reached_group;
      if (!reached_group && *word >= guardian_message::lost) {
        const auto loss = static_cast<Loss>(*word - guardian_message::lost);
        tree_.ladder().lease_lost(loss, Clock::now());
      } else if (*word != guardian_message::sooner) {  // the deadline is read anyway
        const int signal =
            reached_group ? *word - guardian_message::reached_group : *word;
        tree_.forward(signal, reached_group, {task_.callers_group, ::getsid(0)});
      }
    }
    if (owner_.is_gone()) tree_.ladder().owner_gone(Clock::now());
  }

  // Whether there is a command, or may still be one.
  bool has_launched() {
    char nothing = 0;
    if (::read(launching_, &nothing, 1) != 0) return true;  // not known yet
    ::close(launching_);
    launching_ = -1;
    if (page_.failed_at != Step::none) {
      drop();
      return fail(page_.failed_at, page_.error);
    }
    if (!page_.is_becoming.load()) {
      drop();
      return fail(Step::wait, 0);
    }
    page_.phase.store(Phase::running, std::memory_order_release);
    has_news_ = true;
    return true;
  }

  void look_at_deadline(Clock::time_point now) {
    if (is_ending_) return;
    auto until = page_.deadline.load();
    for (;;) {
      // `never` means max().
      tree_.ladder().lease_holds_until(Clock::time_point(nanoseconds(until)));
      if (!tree_.ladder().is_in_doubt(now)) return;
      // From here on no renewal can extend the command's time.
      if (page_.deadline.compare_exchange_strong(until, GuardianPage::ending)) break;
    }
    is_ending_ = true;
  }

  void note_survivors() {
    const auto [refused, stuck] = tree_.survivors();
    if (refused == page_.refused.load() && stuck == page_.stuck.load()) return;
    page_.refused.store(refused);
    page_.stuck.store(stuck);
    owner_.notify();
  }

  // Kills and reaps a process that has not become the command; nothing if there is none.
  void drop() {
    if (tree_.command() <= 0) return;
    ::kill(tree_.command(), SIGKILL);
    reap(tree_.command());
  }

  void finish() {
    page_.wait_status = wait_status_of(tree_.command());
    page_.timed_out = tree_.ladder().timed_out();
    if (const auto lost = tree_.ladder().lost()) page_.loss = static_cast<int>(*lost);
    page_.phase.store(Phase::over, std::memory_order_release);
    owner_.notify();
    reap(tree_.command());  // now that dlock no longer waits for it
  }

  // Sleeps until an event, or until next_check_. The timer counts suspended time, the
  // timeout of ppoll(2) does not; the latter is used only if the timer could not be set.
  void sleep() {
    const bool has_end = next_check_ != Clock::time_point::max();
    const bool is_set = set_timer(task_.timer, next_check_);
    await_event(launching_, has_end && !is_set);
  }

  // Waits for an event; only briefly if `is_timed`.
  void await_event(int launching, bool is_timed) const {
    pollfd watched[] = {{owner_.descriptor(), POLLIN, 0},
                        {task_.timer, POLLIN, 0},
                        {launching, POLLIN, 0}};
    const timespec a_moment{0, nanoseconds(longest_blind_sleep).count()};
    sigset_t but_children;
    ::sigfillset(&but_children);
    ::sigdelset(&but_children, SIGCHLD);
    const int ready = ::ppoll(watched, 3, is_timed ? &a_moment : nullptr, &but_children);
    // For example no memory: pause instead of spinning.
    if (ready < 0 && errno != EINTR) ::nanosleep(&a_moment, nullptr);
  }

  // Waits until dlock closes the channel, or ends. The exit of a process takes longer
  // than a message, and on a busy machine dlock, and with it the next waiter, would wait
  // for it: so the others run first.
  void await_end() {
    set_timer(task_.timer, Clock::time_point::max());
    while (!owner_.is_gone() && owner_.lives()) {
      while (owner_.next_message()) {
      }
      await_event(-1, false);
    }
    ::sched_yield();
  }

  const GuardianTask& task_;
  GuardianPage& page_;
  pid_t pid_;
  GuardianOwner owner_;
  CommandTree tree_;
  int settle_error_ = 0;
  // A pipe that closes when exec has succeeded, or the child has died.
  int launching_ = -1;
  int launching_end_ = -1;  // the child's end
  bool is_ending_ = false;
  bool has_news_ =
      false;  // the command runs or is stopped, and dlock was not notified yet
  Clock::time_point next_check_ = Clock::time_point::max();
};

}  // namespace

void guard(const GuardianTask& task) { GuardianProcess(task).run(); }

}  // namespace dlock
