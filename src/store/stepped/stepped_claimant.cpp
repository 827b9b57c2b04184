#include "store/stepped/stepped_claimant.hpp"

#include <openssl/sha.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "lock/lease.hpp"
#include "loop/wakeup.hpp"
#include "rules/granting.hpp"
#include "rules/keeping.hpp"
#include "rules/state.hpp"
#include "rules/watches.hpp"
#include "util/bits.hpp"
#include "util/fd.hpp"
#include "util/process.hpp"
#include "util/users.hpp"

namespace dlock::stepped {
namespace {

using rules::State;
using Change = StateStore::Change;

// A step reads and writes the whole queue, so it must not grow without bounds. A claim
// that would have so many before it has no place, and asks again after a while.
constexpr std::size_t longest_queue = 1000;
constexpr milliseconds ask_again_when_full{5000};

// A shorter time between renewals is not worth a new session each time.
constexpr milliseconds worth_a_rest{5000};

milliseconds jittered(milliseconds span) {
  return span - milliseconds(random_up_to(static_cast<std::uint64_t>(span.count()) / 2));
}

Claim as_kept(Claim claim) {
  claim.token = kept_token(claim.token);
  claim.command = shortened_command(claim.command);
  return claim;
}

bool has_room(const State& state, const Claim& claim) {
  std::size_t before = 0;
  for (const auto& waiter : state.waiters) {
    if (waiter.party.token == claim.token) return true;
    if (waiter.priority <= claim.priority) ++before;
  }
  return before < longest_queue;
}

class SteppedClaimant final : public Claimant {
 public:
  SteppedClaimant(asio::io_context& context, StateStore& states, const Claim& claim)
      : Claimant(claim), context_(context), states_(states), kept_(as_kept(claim)) {
    party_.token = kept_.token;
    party_.session = rules::session_of(kept_.token);
    party_.pid = ::getpid();
    party_.user = own_user();
    party_.host = host_name();
  }

  // Each step reads first anyway.
  bool queues_at_once() const override { return true; }
  bool bounds_its_queues() const override { return true; }
  asio::awaitable<Answer> ask(Queue queue, Wakeup& wakeup) override {
    std::optional<milliseconds> parked_for;
    const Rule<Answer> rule = [&](const rules::Step& step, Change& change) {
      auto& state = step.state;
      if (state.last_fence >= greatest_fence) {
        throw Failure::misconfigured("no fences are left for this lock");
      }
      // What is recorded there may have run elsewhere.
      if (!may_be_known_ && states_.is_copy()) state.past = {};
      const bool may_join = queue != Queue::join || has_room(state, kept_);
      std::optional<rules::Waiter> before;
      const auto found = rules::waiter_of(state, kept_.token);
      if (found != state.waiters.end()) before = *found;
      const rules::Ask asked{kept_, party_, may_join ? queue : Queue::stay_out,
                             rules::place_lasts};
      auto answer = rules::ask(step, asked);
      change.gives_a_right = std::holds_alternative<Grant>(answer);
      const auto own = rules::waiter_of(state, kept_.token);
      if (own == state.waiters.end()) return answer;
      if (!before) {
        // For the event that it waits; the state need not keep it.
        own->Description::operator=(kept_);
        own->argv = kept_.command;
      }
      parked_for = states_.parks() ? rules::parked_for(state, kept_.token, step.now)
                                   : std::nullopt;
      if (parked_for) {
        own->parked_until = later(step.now.boot, *parked_for);
      } else {
        change.sleeper = party_.session;
      }
      if (parked_for || !before) {
        const auto lasts =
            std::max(rules::place_lasts, 2 * parked_for.value_or(milliseconds(0)));
        own->lives_until = later(step.now.boot, lasts);
        return answer;
      }
      const auto place = static_cast<std::size_t>(own - state.waiters.begin()) + 1;
      own->lives_until =
          rules::place_until(before->lives_until, place, rules::place_lasts, step.now);
      // If nothing else of the waiter changes, nothing is written.
      if (own->lives_until == before->lives_until) own->Description::operator=(*before);
      return answer;
    };
    // If nothing was sent that writes, there is nothing to withdraw.
    const OnExit note_request([&] { may_be_known_ = may_be_known_ || unanswered_; });
    auto step = co_await take(states_, claim().lock, rule, new_call(wakeup), unanswered_);
    may_be_known_ = true;
    if (auto* grant = std::get_if<Grant>(&step.answer)) {
      grant->sent_at = step.read.sent_at;
      grant->deadline = LeaseTiming(claim().ttl, {}, {}).deadline(grant->sent_at);
    }
    note(step.answer, step.read, step.change.state);
    is_parked_ = place_ > 0 && parked_for;
    if (is_parked_) {
      ask_again_ = later(Clock::now(), jittered(*parked_for));
      states_.park();
    }
    co_return std::move(step.answer);
  }

  asio::awaitable<void> await_turn(Call call) override {
    const auto sleep = call.by(ask_again_);
    if (place_ == 0 || is_parked_) co_return co_await sleep.sleep();
    while (co_await states_.sleep(party_.session, place_, sleep.by(ask_again_))) {
      place_ = std::min(place_, rules::in_front);
      ask_again_ =
          std::min(ask_again_, later(Clock::now(), states_.safety_net().of_first_two));
    }
    const auto pause = restraint_.pause(Clock::now());
    if (pause > milliseconds(0)) co_await sleep.within(pause).sleep();
  }

  asio::awaitable<Release> release(const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override {
    if (claim().attached && !may_be_known_) co_return Release::not_ours;
    const auto* granted = granted_ ? &*granted_ : nullptr;
    const Rule<Release> rule = [&](const rules::Step& step, Change& change) {
      const bool is_there =
          rules::holder_of(step.state, kept_.token) != step.state.holders.end();
      change.cause = {kept_.token, end, {}, {}};
      if (granted != nullptr && end && end->lost && !is_there) change.lost = *granted;
      return rules::release_lease(step, kept_, granted, end);
    };
    // Not `wakeup`, which may be interrupted: the lease is released nevertheless, within
    // a short time.
    Wakeup own(context_);
    const Call call{wakeup.last_request_until(states_.timeout(), last_patience), own};
    auto step = co_await take(states_, claim().lock, rule, call, unanswered_);
    has_failed_over_ = step.read.epoch > epoch_;
    if (step.answer == Release::gone || step.answer == Release::taken_over) {
      const auto said =
          step.answer == Release::gone ? Renewal::gone : Renewal::taken_over;
      const auto renewal = co_await found_lost(said, call);
      if (renewal == Renewal::reclaimed) {
        step = co_await take(states_, claim().lock, rule, call, unanswered_);
      } else if (renewal == Renewal::failed_over) {
        step.answer = Release::failed_over;
      }
    }
    if (loss_found_by(step.answer)) {
      note_taker(step.change.state);
      co_return step.answer;  // and to be released again
    }
    granted_.reset();
    may_be_known_ = false;
    co_return step.answer;
  }

  asio::awaitable<Renewal> renew(Wakeup& wakeup) override {
    const auto call = new_call(wakeup);
    const auto renewal = co_await renew_once(kept_, call);
    if (renewal == Renewal::confirmed) rest_until_renewal();
    const bool is_lost = renewal == Renewal::gone || renewal == Renewal::taken_over;
    if (!is_lost) co_return renewal;
    co_return co_await found_lost(renewal, call);
  }

  std::optional<Taker> taken_by() const override { return taken_by_; }
  std::unique_ptr<LeaseNews> listen(std::function<void()> on_news) override {
    if (!claim().attached) return nullptr;
    rest_until_renewal();
    return states_.listen(party_.session, std::move(on_news));
  }

 private:
  Call new_call(Wakeup& wakeup) const { return wakeup.within(states_.timeout()); }
  void note(const Answer& answer, const StateStore::Snapshot& read,
            const rules::State& state) {
    if (std::holds_alternative<Grant>(answer)) {
      const auto own =
          std::ranges::find_if(state.holders, [&](const rules::Holder& holder) {
            return !holder.ended && holder.party.token == kept_.token;
          });
      const auto former = std::exchange(granted_, *own);
      const bool is_repeated = former && former->fence == own->fence;
      if (is_repeated && own->after == rules::GrantId{}) granted_->after = former->after;
      note_taker(state);
      epoch_ = read.epoch;
      restraint_ = Restraint();
      return;
    }
    const auto* busy = std::get_if<Busy>(&answer);
    place_ = busy == nullptr ? 0 : busy->place;
    may_be_known_ = unanswered_ || busy == nullptr || place_ > 0;
    if (place_ == 0) {
      ask_again_ = later(Clock::now(), jittered(ask_again_when_full));
      return;
    }
    const auto watch =
        rules::waits_for(state, kept_.token, read.now, states_.safety_net());
    const auto left = std::chrono::ceil<milliseconds>(watch.ask_again - read.now.boot);
    ask_again_ = later(Clock::now(), left);
  }

  void note_taker(const rules::State& state) {
    if (granted_) taken_by_ = rules::taker_from(state, *granted_);
  }

  void rest_until_renewal() {
    if (claim().attached && claim().ttl / 3 >= worth_a_rest) states_.rest();
  }

  asio::awaitable<Renewal> renew_once(const Claim& kept, Call call) {
    auto ttl = claim().ttl;
    const Rule<Renewal> rule = [&](const rules::Step& step, Change& change) {
      change.gives_a_right = true;
      if (claim().attached) {
        return granted_ ? rules::renew_lease(step, kept, *granted_) : Renewal::gone;
      }
      ttl = rules::ttl_to_set(step.state, kept);
      return rules::renew(step, kept.token, ttl + claim().lock_delay);
    };
    const auto step = co_await take(states_, claim().lock, rule, call, unanswered_);
    if (!claim().attached) keep_ttl(ttl), kept_.ttl = ttl;
    note_taker(step.change.state);
    has_failed_over_ = step.read.epoch > epoch_;
    if (step.answer == Renewal::confirmed || step.answer == Renewal::reclaimed) {
      epoch_ = step.read.epoch;
    }
    co_return step.answer;
  }

  // A lease that vanished by a failover is restored unasked.
  asio::awaitable<Renewal> found_lost(Renewal said, Call call) {
    if (!has_failed_over_ || !granted_) co_return said;
    auto reclaiming = kept_;
    reclaiming.reclaim = true;
    const auto renewal = co_await renew_once(reclaiming, call);
    const bool is_lost = renewal == Renewal::gone || renewal == Renewal::taken_over;
    co_return is_lost ? Renewal::failed_over : renewal;
  }

  asio::io_context& context_;
  StateStore& states_;
  Claim kept_;  // as the store knows it
  rules::Party party_;
  std::optional<rules::Holder> granted_;  // as it was when granted
  std::optional<Taker> taken_by_;
  Clock::time_point ask_again_;
  Restraint restraint_;
  bool may_be_known_ = false;     // to the store, which has to forget the claim
  bool unanswered_ = false;       // see take()
  std::size_t place_ = 0;         // in the queue
  std::uint64_t epoch_ = 0;       // of the server that has confirmed the lease
  bool has_failed_over_ = false;  // the server of the last step lacks its confirmation
  bool is_parked_ = false;        // until it asks again
};

}  // namespace

// EVP_Digest() sets up all of libcrypto first, which costs a run a quarter of its time
// and 60 pages. The functions that do not are deprecated for that reason.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
Token kept_token(const Token& token) {
  std::array<std::uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA256_CTX hash;
  SHA256_Init(&hash);
  SHA256_Update(&hash, token.bytes.data(), token.bytes.size());
  SHA256_Final(digest.data(), &hash);
  Token kept;
  std::copy_n(digest.begin(), kept.bytes.size(), kept.bytes.begin());
  return kept;
}
#pragma GCC diagnostic pop

std::unique_ptr<Claimant> claimant_of(asio::io_context& context, StateStore& states,
                                      const Claim& claim) {
  return std::make_unique<SteppedClaimant>(context, states, claim);
}

}  // namespace dlock::stepped
