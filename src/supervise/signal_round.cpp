#include "supervise/signal_round.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "supervise/signals.hpp"

namespace dlock {
namespace {

// Processes beyond this number get no signal; KILL, which comes later, needs no list.
constexpr std::size_t most_told = 32'768;

// The most scans at once: a process that ignores TERM may keep starting others. On a busy
// machine they can take seconds, in which the caller has other events to handle.
constexpr int most_scans = 10;
constexpr milliseconds longest_look{50};

// Between two looks at processes that are to die. It doubles, so the last look comes
// after a second.
constexpr milliseconds first_pause{1};
constexpr milliseconds longest_pause{512};

struct ToldProcess {
  pid_t pid;
  std::int64_t started;

  bool operator<(const ToldProcess& other) const {
    return pid != other.pid ? pid < other.pid : started < other.started;
  }
};

// Untouched memory costs nothing.
ToldProcess told[most_told];

// The clock ticks of /proc.
std::int64_t ticks(Clock::time_point moment) {
  const nanoseconds tick(1'000'000'000 / ::sysconf(_SC_CLK_TCK));
  return moment.time_since_epoch() / tick;
}

// Whether no process is left of the command, not even one that no scan shows.
bool is_over(ProcessScan& scan, pid_t command) {
  const auto state = state_of_child(command);
  return state == ChildState::ended && scan.is_empty(command);
}

bool contains(unsigned long long signals, int signal) {
  constexpr int last_known = 31;
  return signal > last_known || (signals >> (signal - 1) & 1) != 0;
}

}  // namespace

void SignalRound::begin(ProcessScan& scan, int signal, const TreeRoot& root,
                        Clock::time_point until) {
  *this = SignalRound();
  signal_ = signal;
  root_ = root;
  pause_ = first_pause;
  const auto there = scan.all();
  begin_ = ticks(Clock::now());
  // The group as a whole, so that no shell in it sees its children die first and
  // continues with the next command; parents before their children for the same reason.
  send([&](int what) {
    return ::kill(root_.own_group ? -root_.command : root_.command, what);
  });
  send_to_all(scan, there, Look::first);
  send_to_hidden_children(scan);
  look(scan, until);
}

void SignalRound::resume(ProcessScan& scan, Clock::time_point until) {
  if (Clock::now() >= next_look_) look(scan, until);
}

// Reaches processes that were started since the last look, or missed because a parent
// ended during the scan.
void SignalRound::look(ProcessScan& scan, Clock::time_point until) {
  end();
  bool is_any_left = true;
  bool is_cut_short = false;
  const auto last = later(Clock::now(), longest_look);
  for (int scans = 0; scans < most_scans && Clock::now() < until; ++scans) {
    if (is_over(scan, root_.command)) return;
    is_cut_short = scans > 0 && Clock::now() >= last;
    if (is_cut_short) break;
    const auto found = scan.all();
    const bool was_any_new = send_to_all(scan, found, Look::again);
    const bool was_any_left = std::exchange(is_any_left, is_any_dying(found));
    // What the last one of them started during this scan is shown by the next one.
    const bool has_last_died = was_any_left && !is_any_left;
    if (!was_any_new && found.is_complete && !has_last_died) break;
  }
  if ((!is_any_left && !is_cut_short) || pause_ > longest_pause) return;
  next_look_ = later(Clock::now(), pause_);
  pause_ *= 2;
}

// Takes the result of `send`.
template <typename Send>
int SignalRound::send(Send send) const {
  const int error = send(signal_);
  if (signal_ == SIGTERM) send(SIGCONT);  // otherwise a stopped process would not react
  return error;
}

bool SignalRound::was_sent_to_group(const ScannedProcess& process) const {
  return process.group == root_.told_group ||
         (root_.own_group ? ::getpgid(process.pid) == root_.command
                          : process.pid == root_.command);
}

// Whether it was started by a process that catches or blocks the signal. An orphan may
// also come from one that died of the signal; it is spared if any process catches it.
bool SignalRound::is_spared(const ScannedProcess& process) const {
  if (process.started_ticks < begin_) return false;
  const bool is_orphan = process.parent == ::getpid();
  return contains(process.handled_above, signal_) ||
         (is_orphan && has_catcher_ && pause_ > first_pause);
}

// Signals the processes that have not got the signal yet; true if there were any, or may
// be more.
bool SignalRound::send_to_all(const ProcessScan& scan,
                              const ProcessScan::Processes& found, Look look) {
  const auto known = count_;
  bool was_missed = false;
  for (std::size_t i = 0; i < found.count && count_ < most_told; ++i) {
    const auto& process = found.first[i];
    const ToldProcess as_told{process.pid, process.started_ticks};
    if (!process.is_ours || std::binary_search(told, told + known, as_told) ||
        (look == Look::again && is_spared(process))) {
      continue;
    }
    told[count_++] = as_told;
    const bool is_caught = contains(process.caught, signal_);
    has_catcher_ |= is_caught;
    // One that joined the group since may have got the signal, or come too late for it. A
    // second one harms only a process that catches it.
    if (was_sent_to_group(process) && (look == Look::first || is_caught)) continue;
    const int error = send([&](int what) { return scan.send(process, what); });
    // It has another parent by now, or has exited: the next scan shows.
    if (error == ESRCH) {
      --count_;
      was_missed = true;
    }
  }
  std::sort(told, told + count_);
  return was_missed || count_ > known;
}

// Whether a process lives that is to die of the signal, as soon as it takes it.
bool SignalRound::is_any_dying(const ProcessScan::Processes& found) const {
  const ScannedProcess* first = found.first;
  return asks_to_end(signal_) &&
         std::any_of(first, first + found.count, [&](const ScannedProcess& process) {
           return process.is_ours &&
                  !contains(process.caught | process.ignored, signal_) &&
                  std::binary_search(told, told + count_,
                                     ToldProcess{process.pid, process.started_ticks});
         });
}

// Children that /proc does not show (hidepid, for example). They are not reaped
// meanwhile, so their pids are not reused.
void SignalRound::send_to_hidden_children(ProcessScan& scan) const {
  const auto children = scan.children();
  for (std::size_t i = 0; i < children.count; ++i) {
    ScannedProcess child;
    child.pid = children.first[i];
    child.group = ::getpgid(child.pid);
    if (was_sent_to_group(child) || state_of_child(child.pid) == ChildState::none ||
        scan.is_shown(child.pid)) {
      continue;
    }
    send([&](int what) { return ::kill(child.pid, what); });
  }
}

}  // namespace dlock
