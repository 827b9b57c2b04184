#include "store/redis/redis_claimant.hpp"

#include <algorithm>
#include <utility>

#include "store/redis/answers.hpp"
#include "store/redis/arguments.hpp"
#include "store/redis/keys.hpp"
#include "store/redis/lookout.hpp"
#include "util/random.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

// The first two waiters ask again when the lease that blocks them can end without a
// notification; the others ask only often enough to keep their entries. An idle waiter
// sends two commands each time, and an entry lapses after 90 s (PLACE_MS in the scripts).
constexpr milliseconds keep_place_every{45'000};

// An isolated server does not wake its waiters. Where another server may have taken over,
// they must not sleep as long.
constexpr milliseconds keep_place_where_servers_fail_over{10'000};

// How often the first two waiters check whether the server has forgotten the queue, and
// the second whether the lock was promised to the first, which may be dead. Shorter than
// a promise (PROMISE_MS), so that the second is ready when it lapses, and than WATCH_MS,
// after which it would have to be woken for that.
constexpr milliseconds look_every{2'500};

// How long a waiter sleeps if the first two will ask. They may be dead, and the holder,
// too: so those right behind them ask more often than they have to, each half as often as
// the one before it.
milliseconds sleep_of_others(std::size_t place, bool fails_over) {
  const auto longest = fails_over ? keep_place_where_servers_fail_over : keep_place_every;
  if (place <= 2) return longest;
  auto span = look_every;
  for (std::size_t i = 2; i < place && span < longest; ++i) span *= 2;
  return std::min(span, longest);
}

// A foreign holder notifies no one when it leaves, so the first waiter has to poll.
constexpr milliseconds look_at_foreign_every{250};

// The pause before the next attempt if the waiter's list cannot be read.
constexpr milliseconds pause_after_error{300};

// The part of its ttl that a lease may have used up when it is handed over to us.
constexpr int may_have_lost = 10;

// Shortened at random by up to a tenth.
milliseconds jittered(milliseconds span) {
  const auto tenth = static_cast<std::uint64_t>(span.count()) / 10;
  return span - milliseconds(random_up_to(tenth));
}

}  // namespace

RedisClaimant::RedisClaimant(asio::io_context& context, Route& route, const Claim& claim)
    : Claimant(claim), context_(context), route_(route), fence_floor_(claim.fence_floor) {
  const auto bytes = random_bytes();
  waiter_id_ = hex(bytes.data(), 8);
}

RedisClaimant::~RedisClaimant() = default;

// Called before a request for the lock is sent. An earlier one without a reply may still
// be in flight, and would ask for the lock again when it arrives.
void RedisClaimant::expect_answer() {
  may_come_late_ = may_come_late_ || known_ == Known::unanswered;
  known_ = Known::unanswered;
}

asio::awaitable<Answer> RedisClaimant::ask(Queue queue, Wakeup& wakeup) {
  const auto handed = std::exchange(handed_over_, std::nullopt);
  // Where servers fail over, only a reply shows that this is still the right one.
  if (handed && !route_.fails_over() && !ballot_) {
    const auto age = Clock::now() - handed->sent_at;
    if (age < claim().ttl / may_have_lost) {
      grant_ = *handed;
      confirmed_by_ = handed_over_by_;
      restraint_ = Restraint();
      co_return *handed;
    }
  }
  auto args = ask_arguments(claim(), queue, waiter_id_, arrived_, fence_floor_, ballot_);
  const auto began = Clock::now();
  const auto until = route_.budget_end();
  co_await route_.open(claim().lock, until, wakeup);
  expect_answer();
  const auto sent_at = Clock::now();
  const auto response = co_await route_.run(ask_script, claim().lock, std::move(args),
                                            until, wakeup, Durability::replicas);
  const auto reply = ask_reply_from(response.reply(), claim(), sent_at);
  if (!reply) throw response.failure();
  note(*reply, sent_at);
  if (is_parked_) response.node->close();
  if (std::holds_alternative<Grant>(reply->answer)) {
    restraint_ = Restraint();  // there was a reason to wake it
    co_await make_certain(response, began, until, wakeup);
    confirmed_by_ = response.node;
  }
  co_return reply->answer;
}

// Updates what the server knows of the claim by that reply, and when to ask again.
void RedisClaimant::note(const AskReply& reply, Clock::time_point sent_at) {
  known_ = Known::answered;
  asked_at_ = sent_at;
  is_parked_ = reply.parked_for.has_value();
  const auto* busy = std::get_if<Busy>(&reply.answer);
  const bool has_place = busy != nullptr && busy->place > 0;
  if (!has_place) {
    arrived_ = 0;
  } else if (arrived_ == 0) {
    arrived_ = reply.server_time.count();
  }
  if (const auto* grant = std::get_if<Grant>(&reply.answer)) grant_ = *grant;
  taken_by_ = reply.taken_by;
  if (busy != nullptr) {
    // If the claim has waited, a late request would enter the queue again.
    if (busy->place == 0 && !may_come_late_) known_ = Known::nothing;
    busy_at_ = reply.server_time;
    watch_for(*busy, reply);
  } else if (std::holds_alternative<HeldByOuterRun>(reply.answer) ||
             std::holds_alternative<Deduplicated>(reply.answer) ||
             std::holds_alternative<Superseded>(reply.answer)) {
    // A late request could be granted what this one was not.
    if (!may_come_late_) known_ = Known::nothing;
  }
}

// Sets when to ask again without a notification.
void RedisClaimant::watch_for(const Busy& busy, const AskReply& reply) {
  const auto blocked_for = reply.blocked_for;
  auto after =
      jittered(reply.parked_for ? *reply.parked_for
                                : sleep_of_others(busy.place, route_.fails_over()));
  if (blocked_for != others_watch) {
    const bool is_first = busy.place == 1;
    const bool foreign = !busy.holders.empty() && busy.holders.front().foreign;
    if (is_first && foreign) {
      after = jittered(look_at_foreign_every);
    } else {
      after = jittered(look_every);
    }
    if (blocked_for >= 0) {
      // A millisecond after the lease can end, and the second waiter after the first.
      const milliseconds ends(blocked_for + 1);
      after = std::min(after, is_first ? ends : ends + milliseconds(100));
    }
  }
  ask_again_ = later(Clock::now(), after);
}

asio::awaitable<void> RedisClaimant::await_turn(Wakeup& wakeup, Clock::time_point until) {
  if (is_parked_) co_return co_await sleep(wakeup, std::min(until, ask_again_));
  do {
    const auto reply = co_await pop(wakeup, std::min(until, ask_again_));
    // Each server by itself: if one of several wakes us too often, the others are heard.
    co_await pause_if_woken_too_often(wakeup, std::min(until, ask_again_));
    if (!reply) co_return;  // the next request reports the failure
    if (reply->is_error()) {
      co_await sleep(wakeup, std::min(until, later(Clock::now(), pause_after_error)));
      co_return;
    }
    handed_over_ = handed_over_from(*reply, claim(), asked_at_);
    const auto pause = pause_from(*reply);
    if (!pause) co_return;
    ask_again_ = std::min(ask_again_, later(Clock::now(), *pause));
  } while (Clock::now() < std::min(until, ask_again_));
}

asio::awaitable<void> RedisClaimant::pause_if_woken_too_often(Wakeup& wakeup,
                                                              Clock::time_point until) {
  const auto now = Clock::now();
  const auto pause = restraint_.pause(now);
  if (pause.count() > 0) co_await sleep(wakeup, std::min(until, later(now, pause)));
}

// An element of our own list or the shared one, or the reply that none arrived in time.
// Nothing if the connection broke, as an element may have been popped and lost.
asio::awaitable<std::optional<Reply>> RedisClaimant::pop(Wakeup& wakeup,
                                                         Clock::time_point end) {
  const auto span =
      std::max(std::chrono::ceil<milliseconds>(end - Clock::now()), milliseconds(1));
  // The shortest time that BLPOP blocks; it returns an element at once if there is one.
  const auto key = key_of(claim().lock);
  Command command{"BLPOP", key + ":w:" + waiter_id_, key + ":a",
                  std::to_string(span.count() / 1000) + "." +
                      std::to_string(1000 + span.count() % 1000).substr(1)};
  std::optional<Reply> reply;
  try {
    // Not repeated at another server, which must be asked for the lock first.
    const auto until = later(end, route_.timeout());
    auto* node = co_await route_.open(claim().lock, until, wakeup);
    auto replies = co_await node->exchange(alone(std::move(command)), until, wakeup);
    handed_over_by_ = node;
    reply = std::move(replies.front());
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::interrupted) throw;
  }
  co_return reply;
}

asio::awaitable<void> RedisClaimant::sleep(Wakeup& wakeup, Clock::time_point until) {
  co_await wakeup.sleep_until(until);
}

}  // namespace dlock::redis
