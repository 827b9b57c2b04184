#include "supervise/command_tree.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "util/failure.hpp"

namespace dlock {
namespace {

// Untouched memory costs nothing. The next sweep stops the processes beyond these.
constexpr std::size_t most_frozen = 32'768;
pid_t frozen[most_frozen];

// The upper bound of one sweep, so that the caller can handle other events in between.
constexpr milliseconds longest_sweep{20};

// Stops every descendant of this process (STOP to each, until a whole scan finds no new
// one), so that none escapes by forking, and then kills them. ProcessScan::is_empty()
// reports later whether all have exited: they take time to do so, and the next sweep
// finds those that this one missed.
//
// A process group of another session is stopped and killed as a whole, so that no process
// in it can escape that by forking: a session of a descendant contains only descendants.
// Not so if `had_strangers`: the session of a stranger's orphan may contain the stranger.
class KillSweep {
 public:
  KillSweep(ProcessScan& scan, const TreeRoot& root, bool had_strangers)
      : scan_(scan),
        root_(root),
        had_strangers_(had_strangers),
        self_(::getpid()),
        session_(::getsid(0)),
        end_(later(Clock::now(), longest_sweep)) {}

  // Returns how many we have no permission to kill.
  int go() {
    // The group as a whole, so that no shell in it sees its children die first and
    // continues with the next command.
    if (root_.command > 0) {
      ::kill(root_.own_group ? -root_.command : root_.command, SIGKILL);
    }
    freeze_children();
    // Before the long scan for all others, for which the time may not suffice.
    kill_children();
    auto found = scan_.all();
    while (freeze(found) && Clock::now() < end_) {
      freeze_children();
      found = scan_.all();
    }
    const int refused_deep = kill_found(found);
    return kill_children() + refused_deep;
  }

 private:
  // Until no new child has appeared since the last scan.
  void freeze_children() {
    pid_t newest = 0;
    do {
      const auto children = scan_.children();
      const auto* end = children.first + children.count;
      const auto* known = std::find(children.first, end, newest);
      const auto* fresh = known == end ? children.first : known + 1;
      if (fresh == end) return;
      newest = *(end - 1);
      last_group_ = 0;
      for (; fresh != end; ++fresh) signal_child(*fresh, SIGSTOP);
    } while (Clock::now() < end_);
  }

  // Returns 0 or an errno; a process that has ended is not an error.
  int signal_child(pid_t child, int signal) {
    const auto state = state_of_child(child);
    if (state == ChildState::none) return ESRCH;
    signal_group(child, signal);
    if (state == ChildState::ended) {
      if (child != root_.command) ::waitpid(child, nullptr, WNOHANG);
      return 0;
    }
    return ::kill(child, signal) == 0 ? 0 : errno;
  }

  // Signals the group of a child in one step, which no fork can interleave. Without
  // strangers, every process of a session other than ours was started by our descendants.
  // The child is not reaped, so its pid and group are still its own, even if it is dead.
  void signal_group(pid_t child, int signal) {
    if (had_strangers_) return;
    const auto session = ::getsid(child);
    const auto group = ::getpgid(child);
    if (session <= 0 || session == session_ || group <= 1 || group == last_group_) return;
    last_group_ = group;
    ::kill(-group, signal);
  }

  // Stops descendants that are not children; true if any was not stopped before.
  bool freeze(const ProcessScan::Processes& found) {
    const auto known = count_;
    for (std::size_t i = 0; i < found.count && count_ < most_frozen; ++i) {
      const auto& process = found.first[i];
      if (!process.is_ours || process.parent == self_ ||
          std::binary_search(frozen, frozen + known, process.pid)) {
        continue;
      }
      frozen[count_++] = process.pid;
      scan_.send(process, SIGSTOP);
    }
    std::sort(frozen, frozen + count_);
    return count_ > known;
  }

  // By permissions, or with any error by a filter of system calls.
  static bool is_refusal(int error) { return error != 0 && error != ESRCH; }

  int kill_found(const ProcessScan::Processes& found) const {
    int refused = 0;
    for (std::size_t i = 0; i < found.count; ++i) {
      const auto& process = found.first[i];
      if (!process.is_ours || process.parent == self_) continue;
      if (is_refusal(scan_.send(process, SIGKILL))) ++refused;
    }
    return refused;
  }

  int kill_children() {
    int refused = 0;
    last_group_ = 0;
    const auto children = scan_.children();
    for (std::size_t i = 0; i < children.count; ++i) {
      if (is_refusal(signal_child(children.first[i], SIGKILL))) ++refused;
    }
    return refused;
  }

  ProcessScan& scan_;
  TreeRoot root_;
  bool had_strangers_;
  pid_t self_;
  pid_t session_;
  Clock::time_point end_;
  pid_t last_group_ =
      0;  // the last group signalled; most often the next process is also in it
  std::size_t count_ = 0;
};

}  // namespace

void forward(int signal, const TreeRoot& root) {
  const bool leads_group = ::getpgid(root.command) == root.command;
  const auto say = [&](int what) {
    if (root.own_group || leads_group) ::kill(-root.command, what);
    if (!leads_group) ::kill(root.command, what);
  };
  say(signal);
  if (asks_to_end(signal) && state_of_child(root.command) == ChildState::stopped) {
    say(SIGCONT);
  }
}

CommandTree::CommandTree(const SupervisionPlan& plan, Strangers strangers)
    : plan_(plan), ladder_(plan, {}) {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    // EINVAL: it lacks this function of the call, as emulators do.
    orphans_error_ = errno == EINVAL ? ENOSYS : errno;
  }
  if (strangers == Strangers::none) return;
  siginfo_t info{};
  // There are almost never any, and then nothing has to be listed.
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    if (errno == ECHILD) return;
    throw failure_of_call(errno, "cannot wait for the command", "waitid");
  }
  const auto children = scan_.children();
  strangers_.insert(children.first, children.first + children.count);
  had_strangers_ = !strangers_.empty();
}

int CommandTree::open() {
  if (orphans_error_ != 0) return orphans_error_;
  if (scan_.open()) return 0;
  return errno != 0 ? errno : ENOENT;
}

void CommandTree::require_visibility() {
  if (orphans_error_ != 0) {
    throw failure_of_call(orphans_error_, "cannot track the command's processes",
                          "prctl");
  }
  if (scan_.open()) return;
  if (errno != 0) throw failure_of_named(errno, "cannot track the command's processes");
  throw Failure::misconfigured(
      "cannot track the command's processes: /proc is not mounted, or "
      "shows another PID namespace");
}

void CommandTree::inherit(pid_t command, OwnCgroup cgroup) {
  command_ = command;
  cgroup_ = std::move(cgroup);
}

// Costs two system calls if no other child has died.
bool CommandTree::reap_until_command() {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
      return false;
    }
    if (info.si_pid == command_) return true;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
    strangers_.erase(info.si_pid);  // its pid may be reused by one of ours
  }
}

void CommandTree::look() {
  if (!command_ended_ && reap_until_command()) {
    command_ended_ = true;
    ladder_.command_ended();
  }
  if (command_ended_ && ladder_.needs_tree()) ladder_.tree_is_empty(is_empty());
}

Ladder::Action CommandTree::act(Clock::time_point now) {
  const auto action = ladder_.next(now);
  switch (action) {
    case Ladder::Action::send_term:
      // It stops when the next step is due.
      round_.begin(scan_, SIGTERM, {command_, plan_.own_group}, ladder_.next_check(now));
      break;
    case Ladder::Action::send_kill: kill_all(now); break;
    case Ladder::Action::done:
      // The cgroup may contain processes that are not descendants of the command.
      if (cgroup_ && ladder_.has_sent_term()) cgroup_->kill_all();
      break;
    case Ladder::Action::wait: round_.resume(scan_, ladder_.next_check(now)); break;
  }
  return action;
}

void CommandTree::forward(int signal, bool reached_group, JobPlace own_place) {
  const auto now = Clock::now();
  ladder_.forwarded(signal, now);
  const int wanted = passed_on(signal, reached_group, own_place,
                               command_ended_ ? JobPlace{} : place_of(command_));
  if (wanted == 0) return;
  TreeRoot root{command_, plan_.own_group};
  if (!command_ended_) {
    dlock::forward(wanted, root);
    return;
  }
  // Only its stragglers are left, and they are waited for.
  if (reached_group) root.told_group = own_place.group;
  round_.begin(scan_, wanted, root, ladder_.next_check(now));
}

const CommandTree::Survivors& CommandTree::kill_all(Clock::time_point now,
                                                    bool has_command) {
  round_.end();
  if (cgroup_) cgroup_->kill_all();
  const TreeRoot root{has_command ? command_ : 0, plan_.own_group};
  survivors_.refused = KillSweep(scan_, root, had_strangers_).go();
  kills_since_ = std::min(kills_since_, now);
  survivors_.stuck = survivors_.refused == 0 && now - kills_since_ >= report_stuck_after;
  return survivors_;
}

}  // namespace dlock
