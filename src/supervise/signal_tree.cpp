#include "supervise/signal_tree.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>

#include "supervise/signals.hpp"

namespace dlock {
namespace {

// Processes beyond this number get no signal; KILL, which comes later, needs no list.
constexpr std::size_t most_told = 32'768;

// The most scans: a process that ignores TERM may keep starting others.
constexpr int most_looks = 10;

struct Told {
  pid_t pid;
  std::int64_t started;

  bool operator<(const Told& other) const {
    return pid != other.pid ? pid < other.pid : started < other.started;
  }
};

// Untouched memory costs nothing.
Told told[most_told];

// The clock ticks of /proc.
std::int64_t ticks(Clock::time_point moment) {
  const nanoseconds tick(1'000'000'000 / ::sysconf(_SC_CLK_TCK));
  return moment.time_since_epoch() / tick;
}

class Round {
 public:
  Round(ProcessScan& scan, int signal, const TreeRoot& root)
      : scan_(scan), signal_(signal), root_(root) {}

  void go(Clock::time_point until) {
    const auto there = scan_.all();
    begin_ = ticks(Clock::now());
    // The group as a whole, so that no shell in it sees its children die first and
    // continues with the next command; parents before their children for the same reason.
    say([&](int signal) {
      return ::kill(root_.own_group ? -root_.command : root_.command, signal);
    });
    send_to(there, [](const ScannedProcess&) { return true; });
    tell_hidden_children();
    // Processes that were started since, or missed because a parent ended during the
    // scan.
    const auto is_meant = [this](const ScannedProcess& process) {
      return process.started < begin_ || !is_caught(process.caught_above);
    };
    for (int looks = 0; looks < most_looks && Clock::now() < until; ++looks) {
      const auto found = scan_.all();
      if (!send_to(found, is_meant) && found.is_complete) break;
    }
  }

 private:
  // Takes the result of `send`.
  template <typename Send>
  int say(Send send) const {
    const int error = send(signal_);
    if (signal_ == SIGTERM) send(SIGCONT);  // otherwise a stopped process would not react
    return error;
  }

  bool was_told_first(pid_t pid) const {
    return root_.own_group ? ::getpgid(pid) == root_.command : pid == root_.command;
  }

  bool is_caught(unsigned long long caught) const {
    constexpr int last_known = 31;
    return signal_ > last_known || (caught >> (signal_ - 1) & 1) != 0;
  }

  // Signals the selected processes that have not been signalled yet; true if there were
  // any, or may be more.
  template <typename IsMeant>
  bool send_to(const ProcessScan::Processes& found, IsMeant is_meant) {
    const auto known = count_;
    bool was_missed = false;
    for (std::size_t i = 0; i < found.count && count_ < most_told; ++i) {
      const auto& process = found.first[i];
      const Told as_told{process.pid, process.started};
      if (!process.is_ours || !is_meant(process) ||
          std::binary_search(told, told + known, as_told)) {
        continue;
      }
      told[count_++] = as_told;
      if (was_told_first(process.pid) || process.group == root_.told_group) continue;
      const int error = say([&](int signal) { return scan_.send(process, signal); });
      // It has another parent by now, or is gone: the next scan shows.
      if (error == ESRCH) {
        --count_;
        was_missed = true;
      }
    }
    std::sort(told, told + count_);
    return was_missed || count_ > known;
  }

  // Children that /proc does not show (hidepid, for example). They are not reaped
  // meanwhile, so their pids are not reused.
  void tell_hidden_children() const {
    const auto children = scan_.children();
    for (std::size_t i = 0; i < children.count; ++i) {
      const auto child = children.first[i];
      if (was_told_first(child) || ::getpgid(child) == root_.told_group ||
          state_of_child(child) == ChildState::none || scan_.is_shown(child)) {
        continue;
      }
      say([&](int signal) { return ::kill(child, signal); });
    }
  }

  ProcessScan& scan_;
  int signal_;
  TreeRoot root_;
  std::size_t count_ = 0;
  std::int64_t begin_ = 0;  // in ticks
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

void signal_tree(ProcessScan& scan, int signal, const TreeRoot& root,
                 Clock::time_point until) {
  Round(scan, signal, root).go(until);
}

}  // namespace dlock
