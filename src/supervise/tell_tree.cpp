#include "supervise/tell_tree.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>

namespace dlock {
namespace {

// Beyond these nobody is told: KILL, which comes later, needs no list of them.
constexpr std::size_t most_told = 32'768;

// Something that does not heed TERM may start new ones all the time.
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

// In those that /proc counts in.
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
    // The group at once, so that no shell of it sees its children die first and goes on
    // to the next command; parents before their children for the same reason.
    say([&](int signal) {
      return ::kill(root_.own_group ? -root_.command : root_.command, signal);
    });
    tell(there, [](const ScannedProcess&) { return true; });
    tell_hidden_children();
    // What was started since, or not found because its parent ended during the look.
    const auto is_meant = [this](const ScannedProcess& process) {
      return process.started < begin_ || !is_caught(process.caught_above);
    };
    for (int looks = 0; looks < most_looks && Clock::now() < until; ++looks) {
      if (!tell(scan_.all(), is_meant)) break;
    }
  }

 private:
  // What `send` said of the signal.
  template <typename Send>
  int say(Send send) const {
    const int error = send(signal_);
    if (signal_ == SIGTERM) send(SIGCONT);  // a stopped process would not notice
    return error;
  }

  bool was_told_first(pid_t pid) const {
    return root_.own_group ? ::getpgid(pid) == root_.command : pid == root_.command;
  }

  bool is_caught(unsigned long long caught) const {
    constexpr int last_known = 31;
    return signal_ > last_known || (caught >> (signal_ - 1) & 1) != 0;
  }

  // Those that are meant and have not been told; whether there were any, or may be.
  template <typename IsMeant>
  bool tell(const ProcessScan::Processes& found, IsMeant is_meant) {
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
      if (was_told_first(process.pid)) continue;
      const int error = say([&](int signal) { return scan_.send(process, signal); });
      // It has another parent by now, or is gone: the next look tells.
      if (error == ESRCH) {
        --count_;
        was_missed = true;
      }
    }
    std::sort(told, told + count_);
    return was_missed || count_ > known;
  }

  // Children that /proc does not show; others, it may be, do not want them shown. They
  // are not reaped meanwhile, so that their numbers are theirs.
  void tell_hidden_children() const {
    const auto children = scan_.children();
    for (std::size_t i = 0; i < children.count; ++i) {
      const auto child = children.first[i];
      if (was_told_first(child) || state_of_child(child) == ChildState::none ||
          scan_.is_shown(child)) {
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

void tell_tree(ProcessScan& scan, int signal, const TreeRoot& root,
               Clock::time_point until) {
  Round(scan, signal, root).go(until);
}

}  // namespace dlock
