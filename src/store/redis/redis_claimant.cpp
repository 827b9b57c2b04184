#include "store/redis/redis_claimant.hpp"

#include <algorithm>
#include <utility>

#include "store/redis/answers.hpp"
#include "store/redis/arguments.hpp"
#include "store/redis/keys.hpp"
#include "util/random.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

// What the first two in line wait for may end without a word; they ask again at that
// moment, and the others only so often that their entries stay. An idle waiter sends two
// commands each time, and an entry lapses after 90 s (PLACE_MS in the scripts).
constexpr milliseconds keep_place_every{45'000};

// A server that is cut off wakes nobody, and says nothing either: where another one may
// have taken over, the others must not sleep there for so long.
constexpr milliseconds keep_place_where_servers_fail_over{10'000};

// What ask.lua says to those others.
constexpr std::int64_t others_watch = -2;

// The first two in line look so often whether the server has forgotten the queue, and the
// second whether the lock was promised to the first, who may be dead: more often than a
// promise lasts (PROMISE_MS), so that it is there when that lapses, and than would make
// it be woken for that (WATCH_MS).
constexpr milliseconds look_every{2'500};

// A foreign holder tells nobody when it leaves, so the first in line has to look.
constexpr milliseconds look_at_foreign_every{250};

// Not at once, if the list of a waiter cannot be listened to.
constexpr milliseconds nap_after_trouble{300};

// What part of its ttl a lease that was handed to us may have lost before it comes.
constexpr int may_have_lost = 10;

// Earlier by up to a tenth.
milliseconds jittered(milliseconds span) {
  const auto tenth = static_cast<std::uint64_t>(span.count()) / 10;
  return span - milliseconds(random_up_to(tenth));
}

}  // namespace

RedisClaimant::RedisClaimant(asio::io_context& context, Route& route, const Claim& claim)
    : Claimant(claim), context_(context), route_(route) {
  const auto bytes = random_bytes();
  waiter_id_ = hex(bytes.data(), 8);
}

// A request that asks for the lock is about to be sent. One that had no answer may be
// under way still, and asks for it once more when it comes.
void RedisClaimant::expect_answer() {
  may_come_late_ = may_come_late_ || known_ == Known::unanswered;
  known_ = Known::unanswered;
}

asio::awaitable<Answer> RedisClaimant::ask(Queue queue, Wakeup& wakeup) {
  const auto handed = std::exchange(handed_, std::nullopt);
  // Where servers fail over it takes an answer to know that this one still is the one.
  if (handed && !route_.fails_over() && !ballot_) {
    const auto age = Clock::now() - handed->sent_at;
    if (age < claim().ttl / may_have_lost) {
      grant_ = *handed;
      confirmed_by_ = handed_by_;
      co_return *handed;
    }
  }
  auto args = ask_arguments(claim(), queue, waiter_id_, arrived_, ballot_);
  const auto began = Clock::now();
  const auto until = route_.budget_end();
  co_await route_.open(claim().lock, until, wakeup);
  expect_answer();
  const auto sent_at = Clock::now();
  const auto response = co_await route_.run(ask_script, claim().lock, std::move(args),
                                            until, wakeup, Durability::replicas);
  const auto heard = heard_from(response.reply(), claim(), sent_at);
  if (!heard) throw response.failure();
  note(*heard, sent_at);
  if (std::holds_alternative<Grant>(heard->answer)) {
    co_await make_certain(response, began, until, wakeup);
    confirmed_by_ = response.node;
  }
  co_return heard->answer;
}

// What the server knows of us by that answer, and when to ask again.
void RedisClaimant::note(const Heard& heard, Clock::time_point sent_at) {
  known_ = Known::answered;
  asked_at_ = sent_at;
  const auto* busy = std::get_if<Busy>(&heard.answer);
  const bool has_place = busy != nullptr && busy->place > 0;
  if (!has_place) {
    arrived_ = 0;
  } else if (arrived_ == 0) {
    arrived_ = heard.server_time.count();
  }
  if (const auto* grant = std::get_if<Grant>(&heard.answer)) grant_ = *grant;
  taken_by_ = heard.taken_by;
  if (busy != nullptr) {
    // Of one that has waited, a request that comes late would take a place.
    if (busy->place == 0 && !may_come_late_) known_ = Known::nothing;
    busy_at_ = heard.server_time;
    watch_for(*busy, heard.blocked_for);
  } else if (std::holds_alternative<HeldByOuterRun>(heard.answer) ||
             std::holds_alternative<Deduplicated>(heard.answer) ||
             // A request that comes late would be the newest, and has to be refused.
             (std::holds_alternative<Superseded>(heard.answer) && !may_come_late_)) {
    known_ = Known::nothing;
  }
}

// When to ask again though nobody told us to.
void RedisClaimant::watch_for(const Busy& busy, std::int64_t blocked_for) {
  auto after = jittered(route_.fails_over() ? keep_place_where_servers_fail_over
                                            : keep_place_every);
  if (blocked_for != others_watch) {
    const bool is_first = busy.place == 1;
    const bool foreign = !busy.holders.empty() && busy.holders.front().foreign;
    if (is_first && foreign) {
      after = jittered(look_at_foreign_every);
    } else {
      after = jittered(look_every);
    }
    if (blocked_for >= 0) {
      // A millisecond later than it can last, and the second in line after the first.
      const milliseconds ends(blocked_for + 1);
      after = std::min(after, is_first ? ends : ends + milliseconds(100));
    }
  }
  ask_again_ = later(Clock::now(), after);
}

asio::awaitable<void> RedisClaimant::await_turn(Wakeup& wakeup, Clock::time_point until) {
  do {
    const auto reply = co_await pop(wakeup, std::min(until, ask_again_));
    if (!reply) co_return;  // the next ask will find out what it is
    if (reply->is_error()) {
      co_await nap(wakeup, std::min(until, later(Clock::now(), nap_after_trouble)));
      co_return;
    }
    handed_ = handed_from(*reply, claim(), asked_at_);
    const auto pause = pause_from(*reply);
    if (!pause) co_return;
    ask_again_ = std::min(ask_again_, later(Clock::now(), *pause));
  } while (Clock::now() < std::min(until, ask_again_));
}

// What comes on our own list or on that of all, or that nothing does in this time.
// Nothing if the connection broke: an element may have been popped into it.
asio::awaitable<std::optional<Reply>> RedisClaimant::pop(Wakeup& wakeup,
                                                         Clock::time_point end) {
  const auto span =
      std::max(std::chrono::ceil<milliseconds>(end - Clock::now()), milliseconds(1));
  // A list blocks at least that long, and an element in it does not wait for us.
  const auto key = key_of(claim().lock);
  Command command{"BLPOP", key + ":w:" + waiter_id_, key + ":a",
                  std::to_string(span.count() / 1000) + "." +
                      std::to_string(1000 + span.count() % 1000).substr(1)};
  std::optional<Reply> reply;
  try {
    // Not repeated at another server, which has to be asked for the lock first.
    const auto until = later(end, route_.timeout());
    auto* node = co_await route_.open(claim().lock, until, wakeup);
    auto replies = co_await node->exchange(alone(std::move(command)), until, wakeup);
    handed_by_ = node;
    reply = std::move(replies.front());
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::interrupted) throw;
  }
  co_return reply;
}

asio::awaitable<void> RedisClaimant::nap(Wakeup& wakeup, Clock::time_point until) {
  while (Clock::now() < until && !wakeup.gives_up()) co_await wakeup.wait_until(until);
}

}  // namespace dlock::redis
