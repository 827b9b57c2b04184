// Signals as events, and the signal state that the command inherits.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "loop/wakeup.hpp"
#include "util/fd.hpp"

namespace dlock {

// The signal mask and dispositions that dlock was started with and changes for itself;
// they are restored for the command.
struct SignalState {
  sigset_t mask{};
  bool child_ignored = false;  // SIGCHLD
};

struct Signal {
  int number = 0;
  bool reached_group = false;  // as went_to_group() says
};

// Where a process stands in job control; 0 means unknown.
struct JobPlace {
  pid_t group = 0;
  pid_t session = 0;
};
JobPlace place_of(pid_t pid);

// Whether every process of dlock's process group received a signal that dlock received:
// from the terminal, or because the kernel hung up the group. A hang-up of the terminal
// itself goes only to the session's leader. Other sources in the kernel (an alarm, a
// limit) concern only this process. A stop counts as one whoever sent it: editors stop
// their whole group, and it must not reach them again after they were continued.
bool went_to_group(int signal, bool from_kernel, bool leads_session);

// The signal to pass on to the command; 0 if the command received it with dlock's group,
// or must not get it. A command in another session gets STOP for TSTP, because the kernel
// does not stop by TSTP where no shell can continue. Nor does it stop dlock then, if
// dlock is in the group of its session's leader: the command goes on as well.
int passed_on(int signal, bool reached_group, JobPlace dlock, JobPlace command);

// Whether the default action of `signal` kills a process.
bool ends_by_default(int signal);

// Whether `signal` is one with which users and service managers stop a process: HUP, INT,
// QUIT or TERM.
bool asks_to_end(int signal);

// "TERM" for 15, "RTMIN+1" for 35.
std::string signal_name(int signal);

// The inverse of signal_name(); nothing for any other text.
std::optional<int> signal_named(const std::string& name);

// Blocks every signal that would end dlock, and those that a command may handle (USR1,
// USR2, WINCH, CONT, CHLD), for the rest of this process. Signals that were ignored are
// also blocked, but have no effect: SignalInbox drops them, and the command still ignores
// them. SIGTTIN and SIGTTOU still stop dlock together with its command, as does SIGTSTP
// outside of SignalInbox::hold_stops().
class HeldSignals {
 public:
  HeldSignals();

  const SignalState& inherited() const { return inherited_; }
  const sigset_t& held() const { return held_; }

  // While the result lives, a signal for which asks_to_end() holds ends dlock as it would
  // any other program, for steps that may block without limit when nothing is left to
  // protect. Those that arrived earlier are dropped.
  auto let_through() const {
    return OnExit(
        [through = let_through_now()] { ::sigprocmask(SIG_BLOCK, &through, nullptr); });
  }

 private:
  sigset_t let_through_now() const;

  SignalState inherited_;
  sigset_t held_;
};

// Queues the blocked signals, except CHLD and URG, which do not concern the command.
class SignalInbox {
 public:
  SignalInbox(asio::io_context& context, Wakeup& wakeup, const HeldSignals& held);

  const SignalState& inherited() const { return inherited_; }

  // Takes the oldest signal, including those still pending in the kernel.
  std::optional<Signal> next();

  // While set, a signal that would have ended dlock interrupts a wait inside a store
  // (Wakeup::give_up), since no command has been started yet.
  void give_up_waiting(bool wanted);

  // Sets it for the lifetime of the result.
  auto interrupt_waits() {
    give_up_waiting(true);
    return OnExit([this] { give_up_waiting(false); });
  }

  // While the result lives, TSTP is queued like other signals, so that it can be passed
  // on before stop_here(). Does nothing unless `wanted`, or if TSTP was blocked anyway.
  static auto hold_stops(bool wanted) {
    return OnExit([is_held = wanted && block_stops()] {
      if (is_held) unblock_stops();
    });
  }

  // Stops this process as a TSTP that is not blocked would; returns once it continues.
  static void stop_here();

  // Whether any signal has arrived for which asks_to_end() holds.
  bool was_told_to_end() const { return told_to_end_; }

  // From now on, `told` is called with each such signal when it arrives.
  void on_request_to_end(std::function<void(int)> told) { told_ = std::move(told); }

  // Whether a SIGCONT has arrived.
  bool was_continued() const { return was_continued_; }

  // Takes what is queued up to and including the first signal that would have ended
  // dlock, and returns that one.
  std::optional<int> next_ending();

 private:
  static bool block_stops();  // false: they were blocked already
  static void unblock_stops();
  void drain();

  Wakeup& wakeup_;
  bool gives_up_ = false;
  bool told_to_end_ = false;
  std::function<void(int)> told_;
  bool was_continued_ = false;
  SignalState inherited_;
  std::deque<Signal> queue_;
  std::optional<Readable> readable_;
};

// While this exists, a write beyond a limit on file size (ulimit -f) fails with EFBIG and
// does not end this process by SIGXFSZ. Not for as long as a command may be started,
// which would inherit it: HeldSignals has the same effect and is undone for the command.
class SizeLimitIgnored {
 public:
  SizeLimitIgnored();
  ~SizeLimitIgnored();
  SizeLimitIgnored(const SizeLimitIgnored&) = delete;
  SizeLimitIgnored& operator=(const SizeLimitIgnored&) = delete;

 private:
  void (*before_)(int);
};

// Ends this process by `signal`, so that a shell sees the status of the command; writes
// no core file. As PID 1, which signals do not end, or if that fails, exits with
// 128 + signal.
[[noreturn]] void die_by(int signal);

}  // namespace dlock
