#include "store/local/local_claimant.hpp"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "rules/granting.hpp"
#include "store/local/local_inspector.hpp"
#include "store/local/local_waiting.hpp"
#include "store/local/sessions.hpp"
#include "store/local/text_files.hpp"
#include "util/process.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

// A command that ends within this time is only in the log, to which it was written before
// it started (recall_commands() reads it): to record it with the state would take as long
// as the grant.
constexpr milliseconds short_run{20};

// Whether the only change for this answer is the count.
bool is_refusal(const Answer& answer, Queue queue, const Consequences& consequences) {
  const auto* busy = std::get_if<Busy>(&answer);
  return busy != nullptr && (busy->place == 0 || queue == Queue::refuse) &&
         consequences.wake.empty() && consequences.dead.empty() &&
         consequences.vanished.empty() && consequences.broken.empty();
}

// Whether a holder has lost the lock just now; it watches the file.
bool has_lost_just_now(const std::vector<Holder>& taken_from) {
  return std::ranges::any_of(taken_from,
                             [](const Holder& holder) { return !holder.broken; });
}

class LocalClaimant final : public Claimant {
 public:
  LocalClaimant(Files& files, const Claim& claim)
      : Claimant(claim), files_(files), waiting_(files) {
    files_.set_own_claim(claim.token);
  }

  // Another epoch may have taken over the directory since this claim opened its files.
  // The second attempt finds out whether it still needs them.
  asio::awaitable<Answer> ask(Queue queue, Wakeup& wakeup) override {
    const bool is_first = !session_;
    const auto once = [&] { return ask_once(queue, wakeup); };
    opens_session_late_ = false;
    try {
      co_return co_await files_.repeated(wakeup, once);
    } catch (const Failure&) {
      if (!is_first || !files_.was_replaced()) throw;
    }
    co_return co_await files_.repeated(wakeup, once);
  }

  asio::awaitable<void> await_turn(Call call) override { return waiting_.sleep(call); }

  asio::awaitable<Release> release(const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override {
    std::optional<Failure> failure;
    try {
      co_return co_await files_.repeated(
          wakeup, [&] { return release_once(end, wakeup); }, true);
    } catch (const Failure& error) {
      failure = error;
    }
    co_await log_unreleased(end, wakeup);
    throw *failure;
  }

  asio::awaitable<Renewal> renew(Wakeup& wakeup) override {
    return files_.repeated(wakeup, [this, &wakeup] { return renew_once(wakeup); });
  }

  std::optional<Taker> taken_by() const override { return taken_by_; }

  std::unique_ptr<LeaseNews> listen(std::function<void()> on_news) override {
    if (!claim().attached) return nullptr;  // it ends only by the clock
    return news_of_lease(files_, claim().lock, std::move(on_news));
  }

  int session() const override { return session_ ? session_->fd() : -1; }

  std::optional<StartNote> start_note() override {
    if (!holder_) return std::nullopt;
    try {
      StartNote note;
      note.before_pid = record::start_line(claim().lock, *holder_);
      note.file = RunsLog(files_.directory()).open_for_note(note.before_pid);
      note.before_time = record::start_line_time;
      note.after = record::start_line_end;
      noted_start_ = true;
      return note;
    } catch (const Failure&) {
      return std::nullopt;  // as in files_.log_ends()
    }
  }

  asio::awaitable<void> started(const CommandProcess& process, Wakeup& wakeup) override {
    // Not at the grant, where every system call would delay the command, and not at the
    // release, for which the next waiter waits.
    waiting_.stop();
    files_.waker().prepare();
    if (noted_start_) {
      co_await wakeup.wait_for(short_run);
      if (wakeup.gives_up()) co_return;
    }
    co_await files_.repeated(wakeup, [&]() -> asio::awaitable<void> {
      auto change = co_await files_.begin_change(claim().lock, wakeup);
      rules::record_command(change.state, claim().token, process);
      files_.commit(change, claim().lock);
    });
  }

 private:
  // A claim that finds its lock's file missing while others have sessions of the lock
  // gives its own up until the next attempt: so others that do the same do not wait for
  // it.
  asio::awaitable<Files::Change> begin_claim(Wakeup& wakeup) {
    const auto own = session_ ? session_->session() : Session{0};
    std::optional<Transient> failure;
    try {
      co_return co_await files_.begin_claim(claim().lock, own, wakeup);
    } catch (const Transient& error) {
      failure = error;
    }
    if (!holder_) {
      waiting_.stop();
      session_.reset();
      opens_session_late_ = true;
    }
    throw *failure;
  }

  asio::awaitable<Answer> ask_once(Queue queue, Wakeup& wakeup) {
    if (files_.was_replaced()) close();
    // Before our session is locked: the folder is not created while there are sessions.
    co_await files_.open_to_use(wakeup);
    // Before the state refers to it, and not while the mutex is locked. But if the file
    // of the lock is missing, other claims must be able to tell this one from a holder.
    if (!opens_session_late_) open_session();

    State state;
    Answer answer;
    Consequences consequences;
    Moment moment;
    {
      auto change = co_await begin_claim(wakeup);
      open_session();
      Claim kept = claim();
      kept.command = shortened_command(claim().command);
      const rules::Ask asked{kept, own_party(), queue};
      if (!change.file.exists()) co_await files_.apply_fence_floor(change.state, wakeup);
      if (change.state.last_fence >= greatest_fence) {
        throw Failure::misconfigured("no fences are left for this lock in " +
                                     printable(files_.path()));
      }
      moment = Moment::now();
      answer = rules::ask({change.state, moment, files_.sessions(), consequences}, asked);
      for (const auto& run : consequences.vanished) record_past_run(change.state, run);
      // Once the state does not contain the session, no process would know whose socket
      // it is.
      if (!claim().attached && std::holds_alternative<Grant>(answer)) waiting_.stop();
      try {
        files_.commit(change, claim().lock,
                      {{},
                       {},
                       rules::fences_of(consequences.broken),
                       rules::replacing(own_party())});
      } catch (const Failure&) {
        // For example on a full disk: then it is not counted.
        if (!is_refusal(answer, queue, consequences)) throw;
      }
      if (has_lost_just_now(consequences.broken)) change.file.touch();
      state = std::move(change.state);
    }
    if (auto* busy = std::get_if<Busy>(&answer)) {
      complete(busy->holders, state);
      if (busy->place > 0) {
        waiting_.begin(claim().lock, party_,
                       rules::waits_for(state, claim().token, moment), wakeup);
      }
    } else if (std::holds_alternative<Grant>(answer)) {
      holder_ = *rules::holder_of(state, claim().token);
      note_taker(state);
    }
    files_.notify(consequences);
    co_await files_.log_ends(claim().lock, consequences.vanished, wakeup);
    if (!claim().attached && std::holds_alternative<Grant>(answer)) {
      co_await files_.log(record::grant_line(claim().lock, *holder_) + "\n", wakeup);
    }
    co_return answer;
  }

  asio::awaitable<Release> release_once(const std::optional<RunEnd>& end,
                                        Wakeup& wakeup) {
    waiting_.stop();
    if (!claim().attached && !files_.open_existing()) co_return Release::not_ours;
    const bool has_run = end && holder_;
    const bool is_lost = has_run && end->lost;
    // Record the release in the files that other processes use.
    if (is_lost) {
      // Also the session: the folder is not created again while there are sessions.
      if (files_.are_open() && !files_.in_place()) close();
      const bool is_open = co_await files_.open_to_record(wakeup);
      if (!is_open) co_return Release::not_ours;
    }
    if (!files_.are_open() || (claim().attached && !session_ && !is_lost)) {
      co_return Release::not_ours;
    }
    // A lease in files that no other process would open does not exclude anyone.
    if (has_run && !is_lost && !files_.in_place()) co_return Release::gone;

    auto outcome = Release::not_ours;
    Consequences consequences;
    std::vector<RunInfo> ended;
    {
      auto change = co_await files_.begin_change(claim().lock, wakeup);
      auto& state = change.state;
      if (has_run && !is_lost && !files_.in_place()) co_return Release::gone;
      if (is_lost && !change.file.exists())
        co_await files_.apply_fence_floor(state, wakeup);  // in the recorded state
      const auto moment = Moment::now();
      outcome = rules::release_lease({state, moment, files_.sessions(), consequences},
                                     claim(), holder_ ? &*holder_ : nullptr, end);
      if (loss_found_by(outcome)) {
        note_taker(state);
        co_return outcome;
      }
      const bool was_ours = outcome == Release::released;
      ended = std::move(consequences.vanished);
      // The state does not keep it.
      if (end && (was_ours || is_lost)) ended.back().period = claim().period;
      for (const auto& run : ended) record_past_run(state, run);
      files_.commit(change, claim().lock, {claim().token, end, {}, {}});
      if (is_lost && !was_ours && change.before) {
        auto event = lost_event(*holder_, claim().lock, state, moment);
        event.run = *state.last_run;
        publish(files_.directory(), files_.sessions(), {event});
      }
    }
    files_.notify(consequences);
    if (outcome == Release::released && !end && noted_start_) {
      ended.push_back(record::never_started_run(*holder_));
    }
    co_await files_.log_ends(claim().lock, ended, wakeup);
    holder_.reset();
    co_await files_.drop_unused(wakeup);
    co_return outcome;
  }

  // The next process that looks at the lock, or claims it, finds the end in the log.
  asio::awaitable<void> log_unreleased(const std::optional<RunEnd>& end, Wakeup& wakeup) {
    if (!end || !holder_ || !files_.are_open()) co_return;
    const std::vector<RunInfo> ended(1, rules::ended_run(*holder_, *end, Moment::now()));
    co_await files_.log_ends(claim().lock, ended, wakeup);
  }

  asio::awaitable<Renewal> renew_once(Wakeup& wakeup) {
    Consequences consequences;
    if (claim().attached) {
      if (!holder_ || !files_.in_place()) co_return Renewal::gone;
      auto look = files_.look_at(claim().lock);
      files_.keep_fresh(&look.file);
      note_taker(look.state);
      co_return rules::renew_lease(
          {look.state, Moment::now(), files_.sessions(), consequences}, claim(),
          *holder_);
    }
    if (!files_.open_existing()) co_return Renewal::gone;
    auto outcome = Renewal::gone;
    {
      auto change = co_await files_.begin_change(claim().lock, wakeup);
      keep_ttl(rules::ttl_to_set(change.state, claim()));
      outcome =
          rules::renew({change.state, Moment::now(), files_.sessions(), consequences},
                       claim().token, claim().ttl);
      files_.commit(change, claim().lock);
    }
    files_.notify(consequences);
    co_return outcome;
  }

  void open_session() {
    if (!session_) session_.emplace(files_.directory(), claim().lock, claim().token);
  }

  // Closes files that were removed or replaced.
  void close() {
    waiting_.close();
    session_.reset();
    files_.close();
  }

  void note_taker(const State& state) {
    if (holder_) taken_by_ = rules::taker_from(state, *holder_);
    if (taken_by_) name_user(taken_by_->user);
  }

  // Cached: this process's identity does not change.
  const Party& own_party() {
    if (party_.pid == 0) {
      party_.pid = ::getpid();
      party_.pid_namespace = own_namespaces().pids;
      party_.user = std::to_string(::geteuid());
      party_.host = host_name();
    }
    party_.token = claim().token;
    party_.session = session_->session();
    return party_;
  }

  Files& files_;
  std::optional<SessionLock> session_;
  Party party_;
  std::optional<Holder> holder_;  // what we were granted, for the log
  std::optional<Taker> taken_by_;
  bool noted_start_ = false;
  bool opens_session_late_ = false;  // see ask_once()
  LocalWaiting waiting_;
};

}  // namespace

std::unique_ptr<Claimant> claimant_of(Files& files, const Claim& claim) {
  return std::make_unique<LocalClaimant>(files, claim);
}

}  // namespace dlock::local
