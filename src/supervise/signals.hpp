// Signals as events, and the signal state that the command inherits.
#pragma once

#include <sys/signalfd.h>
#include <sys/types.h>

#include <csignal>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "lock/wakeup.hpp"
#include "util/readable.hpp"

namespace dlock {

// The signal mask and dispositions that dlock was started with and changes for itself;
// they are restored for the command.
struct SignalState {
  sigset_t mask{};
  bool child_ignored = false;  // SIGCHLD
};

struct Signal {
  int number = 0;
  bool from_kernel = false;  // for example Ctrl-C, which the whole group received
};

// Whether the default action of `signal` ends a process.
bool ends_by_default(int signal);

// Whether `signal` is one that users and service managers end a process with: HUP, INT,
// QUIT or TERM.
bool asks_to_end(int signal);

// "TERM" for 15, "RTMIN+1" for 35.
std::string signal_name(int signal);

// The inverse of signal_name(); nothing for any other text.
std::optional<int> signal_named(const std::string& name);

// Blocks every signal that would end dlock, and those that a command may handle (USR1,
// USR2, WINCH, CONT, CHLD), for the rest of this process. Signals that were ignored are
// blocked, too, but have no effect: SignalInbox drops them, and the command still ignores
// them. SIGTSTP, SIGTTIN and SIGTTOU still stop dlock together with its command.
class HeldSignals {
 public:
  HeldSignals();

  const SignalState& inherited() const { return inherited_; }
  const sigset_t& held() const { return held_; }

  // While it lives, a signal for which asks_to_end() holds ends dlock as it would any
  // other program, for steps that may block without limit when nothing is left to
  // protect. Those that arrived earlier are dropped.
  class LetThrough {
   public:
    explicit LetThrough(const HeldSignals& held);
    ~LetThrough();
    LetThrough(const LetThrough&) = delete;
    LetThrough& operator=(const LetThrough&) = delete;

   private:
    sigset_t through_;
  };

 private:
  SignalState inherited_;
  sigset_t held_;
};

// Queues the blocked signals.
class SignalInbox {
 public:
  SignalInbox(asio::io_context& context, Wakeup& wakeup, const HeldSignals& held);
  ~SignalInbox();

  const SignalState& inherited() const { return inherited_; }

  // Takes the oldest signal, including those still pending in the kernel.
  std::optional<Signal> next();

  // While set, a signal that would have ended dlock interrupts a wait inside a store
  // (Wakeup::give_up), since no command has been started yet.
  void give_up_waiting(bool wanted);

  // Sets it for the lifetime of the object.
  class InterruptibleWait {
   public:
    explicit InterruptibleWait(SignalInbox& signals) : signals_(signals) {
      signals_.give_up_waiting(true);
    }
    ~InterruptibleWait() { signals_.give_up_waiting(false); }
    InterruptibleWait(const InterruptibleWait&) = delete;
    InterruptibleWait& operator=(const InterruptibleWait&) = delete;

   private:
    SignalInbox& signals_;
  };

  // Whether any signal has arrived for which asks_to_end() holds.
  bool was_told_to_end() const { return told_to_end_; }

  // Whether a SIGCONT has arrived.
  bool was_continued() const { return was_continued_; }

  // Takes what is queued up to and including the first signal that would have ended
  // dlock, and returns that one.
  std::optional<int> next_ending();

 private:
  void drain();

  Wakeup& wakeup_;
  bool gives_up_ = false;
  bool told_to_end_ = false;
  bool was_continued_ = false;
  SignalState inherited_;
  std::deque<Signal> queue_;
  std::optional<Readable> readable_;
};

// Ends this process by `signal`, so that a shell sees the status of the command; writes
// no core file. As PID 1, which signals do not end, or if that fails, exits with
// 128 + signal.
[[noreturn]] void die_by(int signal);

}  // namespace dlock
