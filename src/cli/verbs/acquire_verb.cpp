#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>

#include "cli/run/background_keeper.hpp"
#include "cli/run/verb_store.hpp"
#include "cli/show/lock_view.hpp"
#include "cli/terminal/speaker.hpp"
#include "cli/verbs/verbs.hpp"
#include "lease/holding.hpp"
#include "loop/event_loop.hpp"
#include "loop/wakeup.hpp"
#include "supervise/signals.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// Lines for `eval` in any POSIX shell.
std::string exports_of(const Claim& claim, Fence fence) {
  return "export DLOCK_NAME=" + shell_quoted(claim.lock.name) +
         "\nexport DLOCK_TOKEN=" + text_of(claim.token) +
         "\nexport DLOCK_FENCE=" + std::to_string(fence.number) + "\n";
}

// One acquisition, until the caller has the token or the lock is released.
class Acquisition {
 public:
  Acquisition(asio::io_context& context, const CommonOptions& common,
              const AcquireOptions& options, const Claim& claim, const HeldSignals& held,
              BackgroundKeeper* keeper)
      : context_(context),
        options_(options),
        keeper_(keeper),
        speaker_(options.name, common.quiet, common.verbose),
        wakeup_(context),
        signals_(context, wakeup_, held),
        timing_(claim.ttl, {}, store_timeout(common, claim.ttl)),
        store_(opened_store(common, timing_.budget(), context, options.name)),
        lock_(context, wakeup_, *store_, claim, timing_) {}

  asio::awaitable<Exit> execute() {
    try {
      co_await take();
      if (const auto signal = signals_.next_ending()) {
        exit_.by_signal = signal;
      } else if (is_granted()) {
        co_await hand_out();
      }
    } catch (const Failure& failure) {
      failed(failure);
    }
    // Even after the token was printed: the caller treats our death by a signal as a
    // failure.
    if (const auto signal = signals_.next_ending()) exit_.by_signal = signal;
    if (exit_.by_signal || !is_handed_out_) {
      if (exit_.by_signal) wakeup_.give_up(true);  // do not wait for the store any longer
      co_await give_back();
    } else if (keeper_ != nullptr) {
      keeper_->stay();
    }
    co_return exit_;
  }

 private:
  asio::awaitable<void> take() {
    const auto wait = signals_.interrupt_waits();
    std::unique_ptr<Readable> beneficiary;
    bool has_ended = false;
    if (keeper_ != nullptr) {
      beneficiary = keeper_->watch_beneficiary(context_, [&] {
        has_ended = true;
        wakeup_.give_up(true);
        beneficiary.reset();  // it stays readable
      });
    }
    try {
      Patience patience;
      patience.until = end_of_wait(options_);
      const auto answer = co_await obtain(lock_, std::move(patience), speaker_);
      note(answer);
      if (keeper_ != nullptr) co_await have_kept();
    } catch (const Failure&) {
      if (!has_ended) throw;
    }
    if (!has_ended) co_return;
    const auto why = joined("process ", *options_.for_pid, " has ended");
    speaker_.error(why);
    throw Failure::interrupted(why);
  }

  bool is_granted() const { return lock_.grant().has_value(); }
  bool is_over() const { return !is_kept_ && !lock_.lasts(milliseconds(1)); }

  void note(const Answer& answer) {
    if (is_granted()) {
      say_granted(lock_, speaker_);
    } else {
      refused(answer);
    }
  }

  // Requests the lease again if it has expired. There is no grant afterwards if another
  // claim was granted the lock in the meantime.
  asio::awaitable<void> ask_again() {
    const auto answer = co_await lock_.ask_again();
    note(answer);
  }

  asio::awaitable<void> have_kept() {
    while (is_granted() && is_over()) co_await ask_again();
    if (!is_granted()) co_return;
    co_await keeper_->take_over(context_, wakeup_);
    is_kept_ = true;
  }

  // Throws Failure if the caller cannot be given the token.
  asio::awaitable<void> hand_out() {
    // Standard output was closed when dlock started and was opened by main(): the token
    // would be lost.
    if ((::fcntl(STDOUT_FILENO, F_GETFD) & FD_CLOEXEC) != 0) {
      throw Failure::unreachable("nowhere to print the token: standard output is closed");
    }
    using Form = AcquireOptions::Form;
    Json free;
    do {
      if (is_over()) co_await ask_again();
      if (!is_granted()) co_return;
      if (options_.form == Form::json) {
        free = co_await free_of(*store_, lock_.claim().lock, wakeup_);
      }
    } while (is_over());
    switch (options_.form) {
      case Form::token: print(text_of(lock_.claim().token) + "\n"); break;
      case Form::json: print(document(free)); break;
      case Form::variables: print(exports_of(lock_.claim(), lock_.grant()->fence)); break;
    }
    is_handed_out_ = true;
  }

  std::string document(const Json& free) const {
    const auto& grant = *lock_.grant();
    const bool ends = grant.deadline != Clock::time_point::max();
    const auto left = left_of(lock_.claim().ttl, grant.sent_at);
    return to_line(Json{
               {"token", text_of(lock_.claim().token)},
               {"fence", grant.fence.number},
               {"slot", grant.slot},
               {"expires_in_ms", ends ? Json(left.count()) : Json(nullptr)},
               {"free", free},
           }) +
           "\n";
  }

  // Always safe: releasing a lock that is not ours does nothing.
  asio::awaitable<void> give_back() {
    if (!may_hold_) co_return;
    const std::optional<RunEnd> no_run;  // has to outlive the call
    try {
      co_await lock_.release(no_run);
    } catch (const Failure& failure) {
      if (failure.kind() == Failure::Kind::interrupted) co_return;
      if (is_granted()) {
        speaker_.warning("cannot release the lock: " + std::string(failure.what()) +
                         "; its lease expires in " +
                         for_people(left_of(lock_.claim().ttl, lock_.grant()->sent_at)));
      } else if (store_->leases_expire() &&
                 (exit_.by_signal || exit_.code == code_of(ExitStatus::not_obtained))) {
        // On this machine, no request comes late; and one that failed has said as much.
        speaker_.warning(withdrawal_failed_text(lock_.claim(), failure.what()));
      }
    }
  }

  void refused(const Answer& answer) {
    auto message = refusal_text(answer, lock_.claim().slots);
    if (std::holds_alternative<SlotsDiffer>(answer)) {
      exit_.code = code_of(ExitStatus::misconfigured);
      speaker_.error(message);
      return;
    }
    const auto* busy = std::get_if<Busy>(&answer);
    // A request of a claim that has waited may still be in progress.
    may_hold_ = busy != nullptr && (busy->place > 0 || options_.wait);
    if (busy != nullptr) message.insert(0, after_wait_text(options_.wait));
    exit_.code = code_of(ExitStatus::not_obtained);
    speaker_.warning(message + (options_.wait ? "" : queue_hint(answer)));
  }

  void failed(const Failure& failure) {
    if (failure.kind() == Failure::Kind::interrupted) {
      exit_.code = code_of(ExitStatus::not_obtained);  // unless a signal ends us
      return;
    }
    exit_.code = code_of(status_of(failure.kind()));
    if (!is_granted()) wakeup_.give_up(true);  // the store timeout is used up
    speaker_.error(failure.what());
  }

  asio::io_context& context_;
  const AcquireOptions& options_;
  BackgroundKeeper* keeper_;  // or null
  Speaker speaker_;
  Wakeup wakeup_;
  SignalInbox signals_;
  LeaseTiming timing_;
  std::unique_ptr<Store> store_;
  Holding lock_;
  bool is_kept_ = false;  // renewed by the keeper
  bool may_hold_ = true;  // may hold the lock or a place in its queue
  bool is_handed_out_ = false;
  Exit exit_;
};

Claim claim_of(const CommonOptions& common, const AcquireOptions& options) {
  auto claim = new_claim(common, options);
  claim.attached = false;
  // The calling process, because this one exits in a moment.
  claim.on_behalf_of = options.for_pid.value_or(::getppid());
  claim.for_pid = options.for_pid.has_value();
  return claim;
}

}  // namespace

Exit acquire_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  const auto options = acquire_options(invocation.settings, invocation.operands.at(0));
  return about(options.name, [&] {
    const auto claim = claim_of(common, options);
    // Before there is a socket, a database or an event loop that the child would inherit.
    std::unique_ptr<BackgroundKeeper> keeper;
    if (options.for_pid) {
      keeper = std::make_unique<BackgroundKeeper>(*options.for_pid, common.store, claim,
                                                  store_timeout(common, claim.ttl));
    }

    const HeldSignals held;
    EventLoop context;
    Acquisition acquisition(context, common, options, claim, held, keeper.get());
    return run_blocking(context, [&] { return acquisition.execute(); });
  });
}

}  // namespace dlock
