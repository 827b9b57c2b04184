// Signals as events, and what the command inherits of them.
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

// The signal mask and dispositions that dlock was started with, as far as it changes
// them; the command gets them back.
struct SignalState {
  sigset_t mask{};
  bool child_ignored = false;  // SIGCHLD
};

struct Signal {
  int number = 0;
  bool from_kernel = false;  // the terminal's Ctrl-C, say: its whole group got it
};

// Whether the default action of `signal` ends a process.
bool ends_by_default(int signal);

// Whether `signal` is how users and managers of services end a process: HUP, INT, QUIT or
// TERM.
bool asks_to_end(int signal);

// "TERM" for 15, "RTMIN+1" for 35.
std::string signal_name(int signal);

// The inverse; nothing for any other text.
std::optional<int> signal_named(const std::string& name);

// Keeps every signal that would end dlock, and those that mean something to a command
// (USR1, USR2, WINCH, CONT, CHLD), from acting on their own, for the rest of this
// process. Those that were ignored are held, too, and have no effect: SignalInbox drops
// them, and the command still ignores them. SIGTSTP, SIGTTIN and SIGTTOU still
// stop dlock together with its command.
class HeldSignals {
 public:
  HeldSignals();

  const SignalState& inherited() const { return inherited_; }
  const sigset_t& held() const { return held_; }

 private:
  SignalState inherited_;
  sigset_t held_;
};

// Queues signals that are held.
class SignalInbox {
 public:
  SignalInbox(asio::io_context& context, Wakeup& wakeup, const HeldSignals& held);
  ~SignalInbox();

  const SignalState& inherited() const { return inherited_; }

  // The oldest signal not yet taken; looks at what is pending, too.
  std::optional<Signal> next();

  // While set, a signal that would have ended dlock makes whoever waits inside a store
  // give up (Wakeup::give_up), since nothing has been started yet.
  void give_up_waiting(bool wanted);

  // The same for as long as it is there.
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

  // Whether a signal has come that asks to end, whatever became of it.
  bool was_told_to_end() const { return told_to_end_; }

  // Takes what is queued up to and including the first signal that would have ended
  // dlock, and returns that one.
  std::optional<int> next_ending();

 private:
  void drain();

  Wakeup& wakeup_;
  bool gives_up_ = false;
  bool told_to_end_ = false;
  SignalState inherited_;
  std::deque<Signal> queue_;
  std::optional<Readable> readable_;
};

// Ends this process by `signal`, so that a shell sees what it would have seen of the
// command; without a core of dlock's own. As PID 1, which signals do not end, or where
// that fails, by exit status 128 + signal.
[[noreturn]] void die_by(int signal);

}  // namespace dlock
