#include "supervise/kill_tree.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace dlock {
namespace {

// Untouched memory costs nothing. The next sweep stops the processes beyond these.
constexpr std::size_t most_frozen = 32'768;
pid_t frozen[most_frozen];

class Sweep {
 public:
  Sweep(ProcessScan& scan, const TreeRoot& root, bool had_strangers)
      : scan_(scan),
        root_(root),
        had_strangers_(had_strangers),
        self_(::getpid()),
        session_(::getsid(0)),
        end_(later(Clock::now(), longest_sweep)) {}

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

  int kill_found(const ProcessScan::Processes& found) const {
    int refused = 0;
    for (std::size_t i = 0; i < found.count; ++i) {
      const auto& process = found.first[i];
      if (!process.is_ours || process.parent == self_) continue;
      if (scan_.send(process, SIGKILL) == EPERM) ++refused;
    }
    return refused;
  }

  int kill_children() {
    int refused = 0;
    last_group_ = 0;
    const auto children = scan_.children();
    for (std::size_t i = 0; i < children.count; ++i) {
      if (signal_child(children.first[i], SIGKILL) == EPERM) ++refused;
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
      0;  // the last group signalled; most often the next process is in it, too
  std::size_t count_ = 0;
};

}  // namespace

int kill_tree(ProcessScan& scan, const TreeRoot& root, bool had_strangers) {
  return Sweep(scan, root, had_strangers).go();
}

}  // namespace dlock
