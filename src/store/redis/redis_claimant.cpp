#include "store/redis/redis_claimant.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <utility>

#include "store/redis/records.hpp"
#include "store/redis/redis_news.hpp"
#include "store/redis/script_calls.hpp"
#include "util/bits.hpp"
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
milliseconds pause_at_place(std::size_t place, bool fails_over) {
  const auto longest = fails_over ? keep_place_where_servers_fail_over : keep_place_every;
  if (place <= 2) return longest;
  auto span = look_every;
  for (std::size_t i = 2; i < place && span < longest; ++i) span *= 2;
  return std::min(span, longest);
}

// The holder of another program notifies no waiter when it leaves, so the first waiter
// has to poll.
constexpr milliseconds look_at_foreign_every{250};

// The pause before the next attempt if the waiter's list cannot be read.
constexpr milliseconds pause_after_error{300};

// The part of its ttl that a lease may have used up when it is handed off to us.
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
    const auto& grant = std::get<Grant>(handed->answer);
    const auto age = Clock::now() - grant.sent_at;
    if (age < claim().ttl / may_have_lost) {
      note_grant(*handed);
      confirmed_by_ = handed_over_by_;
      restraint_ = Restraint();
      co_return grant;
    }
  }
  auto args = ask_arguments(claim(), queue, waiter_id_, arrived_, fence_floor_, ballot_);
  const auto began = Clock::now();
  const auto call = route_.new_call(wakeup);
  co_await route_.open(claim().lock, call);
  expect_answer();
  const auto sent_at = Clock::now();
  const auto response = co_await route_.run(ask_script, claim().lock, std::move(args),
                                            call, Durability::replicas);
  const auto reply = response.checked(ask_reply_from(response.reply(), claim(), sent_at));
  note(reply, sent_at);
  if (is_parked_) response.node->close();
  if (std::holds_alternative<Grant>(reply.answer)) {
    restraint_ = Restraint();  // there was a reason to wake it
    co_await make_certain(response, began, call);
    confirmed_by_ = response.node;
  }
  co_return reply.answer;
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
  if (std::holds_alternative<Grant>(reply.answer)) note_grant(reply);
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

void RedisClaimant::note_grant(const AskReply& reply) {
  const auto former = std::exchange(grant_, std::get<Grant>(reply.answer));
  const bool is_repeated = former.fence == grant_.fence;
  if (!is_repeated || !reply.after.empty()) after_ = reply.after;
}

// Sets when to ask again without a notification.
void RedisClaimant::watch_for(const Busy& busy, const AskReply& reply) {
  const auto blocked_for = reply.blocked_for;
  auto after =
      jittered(reply.parked_for ? *reply.parked_for
                                : pause_at_place(busy.place, route_.fails_over()));
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

asio::awaitable<void> RedisClaimant::await_turn(Call call) {
  if (is_parked_) co_return co_await call.by(ask_again_).sleep();
  do {
    const auto reply = co_await pop(call.by(ask_again_));
    // Each server by itself: if one of several wakes us too often, the others are heard.
    const auto restrained = restraint_.pause(Clock::now());
    co_await call.by(ask_again_).within(restrained).sleep();
    if (!reply) co_return;  // the next request reports the failure
    if (reply->is_error()) {
      co_await call.within(pause_after_error).sleep();
      co_return;
    }
    handed_over_ = handed_over_from(*reply, claim(), asked_at_);
    const auto pause = pause_from(*reply);
    if (!pause) co_return;
    ask_again_ = std::min(ask_again_, later(Clock::now(), *pause));
  } while (!call.by(ask_again_).is_over());
}

// An element of this waiter's list or the shared one, or the reply that none arrived in
// time. Nothing if the connection broke, as an element may have been popped and lost.
asio::awaitable<std::optional<Reply>> RedisClaimant::pop(Call call) {
  const auto span = std::max(std::chrono::ceil<milliseconds>(call.until - Clock::now()),
                             milliseconds(1));
  // The shortest time that BLPOP blocks; it returns an element at once if there is one.
  const auto key = key_of(claim().lock);
  Command command{"BLPOP", key + ":w:" + waiter_id_, key + ":a",
                  std::to_string(span.count() / 1000) + "." +
                      std::to_string(1000 + span.count() % 1000).substr(1)};
  std::optional<Reply> reply;
  try {
    // Not repeated at another server, which must be asked for the lock first.
    // The other half of the time is for what is asked next. But a server looks at its
    // clock only ten times a second.
    const auto least = std::min(route_.timeout(), milliseconds(200));
    call.until = later(call.until, std::max(route_.timeout() / 2, least));
    auto* node = co_await route_.open(claim().lock, call);
    auto replies = co_await node->exchange(alone(std::move(command)), call);
    handed_over_by_ = node;
    reply = std::move(replies.front());
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::interrupted) throw;
  }
  co_return reply;
}

asio::awaitable<Release> RedisClaimant::release(const std::optional<RunEnd>& end,
                                                Wakeup& wakeup) {
  lookout_.reset();
  const auto answer = co_await give_back(end, wakeup);
  const bool is_left = end && end->leaves_lease && answer == Release::released;
  co_return is_left ? Release::left : answer;
}

asio::awaitable<Release> RedisClaimant::give_back(const std::optional<RunEnd>& end,
                                                  Wakeup& wakeup) {
  handed_over_.reset();
  auto fence = grant_.fence;
  // Another client may have obtained the detached lease.
  if (known_ == Known::nothing && claim().attached) {
    // Other servers of a quorum may report the loss of a run that is recorded here
    // already.
    if (!end || !end->lost || !recorded_) co_return Release::not_ours;
    fence = *recorded_;
  }

  // Not `wakeup`, which may be interrupted: the lease is released nevertheless, within a
  // short time.
  Wakeup own(context_);
  const Call call{wakeup.last_request_until(route_.timeout(), last_patience), own};
  const bool may_come_late = may_come_late_ || known_ == Known::unanswered;
  auto args = release_arguments(claim(), end, waiter_id_, fence, may_come_late);
  Response response;
  if (ballot_ && may_come_late) {
    response = co_await release_for_good(args, call);
  } else {
    response = co_await route_.run(release_script, claim().lock, args, call);
  }
  auto released = release_from(response.reply());
  const bool vanished = released == Release::gone || released == Release::taken_over;
  if (vanished) {
    auto renewal = Renewal::gone;
    try {
      renewal = co_await found_lost(renewal, response, call);
    } catch (const Failure&) {
      // The loss is known nevertheless.
    }
    if (renewal == Renewal::reclaimed) {
      // The lock was not granted to another claim meanwhile.
      response = co_await route_.run(release_script, claim().lock, std::move(args), call);
      released = release_from(response.reply());
    } else if (renewal == Renewal::failed_over) {
      released = Release::failed_over;
    }
  }
  if (!released) throw response.failure();
  if (released == Release::broken) taken_by_ = taker_from(response.reply());
  if (loss_found_by(*released)) co_return *released;  // and to be released again
  recorded_ = end ? std::optional(fence) : std::nullopt;
  grant_ = {};
  known_ = Known::nothing;
  may_come_late_ = false;
  co_return *released;
}

// For a server that may no longer reply. It may be so slow that it reads our requests
// after we have exited, and then only the first one. The first one therefore tells it to
// refuse the request for the lock that may still arrive.
asio::awaitable<Response> RedisClaimant::release_for_good(
    const std::vector<std::string>& args, Call call) {
  const auto keys = route_.keys_for(release_script, claim().lock);
  std::vector<Command> commands;
  commands.push_back({"SET", keys.front() + ":t:" + text_of(claim().token), "1", "PX",
                      std::to_string(comes_late_by.count())});
  commands.push_back(command_of(release_script, Sent::in_full, keys, args));
  auto response = co_await route_.exchange(claim().lock, std::move(commands), call);
  response.replies.erase(response.replies.begin());
  co_return response;
}

// Does not make the server refuse late requests, as that would also refuse this claim. It
// names the fence of the grant, and the next grant has a greater one, so that it cannot
// release that if it is late.
asio::awaitable<void> RedisClaimant::release_grant(Wakeup& wakeup) {
  const auto fence = std::exchange(grant_, {}).fence;
  fence_floor_ = std::max(fence_floor_, fence);
  auto args = revoke_arguments(claim(), waiter_id_, fence);
  const auto response =
      co_await route_.run(release_script, claim().lock, std::move(args), wakeup);
  if (!release_from(response.reply())) throw response.failure();
}

// --- Confirming a grant, and keeping the lease ---

namespace {

Failure not_confirmed(const Response& response) {
  return Failure::unreachable("no majority of the sentinels confirms that " +
                              response.node->name() + " is the primary");
}

bool is_loss(Renewal renewal) {
  return renewal == Renewal::gone || renewal == Renewal::taken_over ||
         renewal == Renewal::failed_over;
}

// Runs independently of the caller, so it shares ownership of everything it uses. Its
// failures are ignored, because the next renewal reports the same.
class BreakNews final : public LeaseNews {
 public:
  BreakNews(const Node& node, std::string list, std::function<void()> on_news)
      : on_news_(std::make_shared<const std::function<void()>>(on_news)),
        listener_(std::make_shared<BreakListener>(node.context(), node.target(),
                                                  std::move(list), node.timeout())) {
    asio::co_spawn(node.context(), listener_->listen(std::move(on_news)),
                   [listener = listener_](const std::exception_ptr&) {});
  }
  ~BreakNews() override { listener_->stop(); }
  std::shared_ptr<const std::function<void()>> on_news() const { return on_news_; }
  std::shared_ptr<BreakListener> listener() const { return listener_; }
  void stop() override { listener_->stop(); }
  BreakNews(const BreakNews&) = delete;
  BreakNews& operator=(const BreakNews&) = delete;

 private:
  std::shared_ptr<const std::function<void()>> on_news_;
  std::shared_ptr<BreakListener> listener_;
};

}  // namespace

// A grant counts only if the sentinels confirm that the server is the primary, and if
// enough replicas have acknowledged it. Otherwise it is released. WAIT for missing
// replicas may leave the sentinels little time, so the replicas are checked even if the
// sentinels have not replied.
asio::awaitable<void> RedisClaimant::make_certain(const Response& response,
                                                  Clock::time_point began, Call call) {
  std::optional<Failure> failure;
  try {
    auto opinion = Opinion::confirmed;
    if (auto inquiry = route_.inquire(*response.node, began, call.until)) {
      opinion = co_await inquiry->opinion(call);
    }
    if (opinion != Opinion::denied) co_await check_replicas(response, call);
    if (opinion != Opinion::confirmed) failure = not_confirmed(response);
  } catch (const Failure& error) {
    failure = error;
  }
  if (!failure) co_return;
  try {
    co_await release_grant(call.wakeup);
  } catch (const Failure&) {
    // Then it expires by itself.
  }
  response.node->distrust();
  throw *failure;
}

// Checked after the number of replicas was updated during the request, so that a replica
// that has come back also counts.
asio::awaitable<void> RedisClaimant::check_replicas(const Response& response, Call call) {
  const auto wanted = co_await route_.replicas_of(*response.node, call);
  if (response.acknowledged >= wanted) co_return;
  throw Failure::unreachable(
      response.node->name() + ": " + std::to_string(response.acknowledged) + " of " +
      std::to_string(wanted) + " replicas have acknowledged the lease (--replicas)");
}

// A keeper can renew again at once. Its renewal is therefore interrupted as soon as
// another server is named in the place of the one that was asked, and begins again there.
// Until a renewal succeeds, the others are also asked between the attempts.
asio::awaitable<Renewal> RedisClaimant::renew(Wakeup& wakeup) {
  if (on_news_.expired() || !route_.fails_over()) {
    co_return co_await renew_within_budget(wakeup);
  }
  Wakeup own(context_);
  asked_ = nullptr;
  renewing_ = &own;
  look_out();
  std::optional<Failure> failure;
  auto renewal = Renewal::confirmed;
  try {
    renewal = co_await renew_within_budget(own);
  } catch (const Failure& error) {
    failure = error;
  }
  renewing_ = nullptr;
  if (failure) {
    if (own.gives_up() && asked_ != nullptr) asked_->distrust();
    throw *failure;
  }
  lookout_.reset();
  co_return renewal;
}

void RedisClaimant::look_out() {
  if (lookout_) return;
  const auto begin = later(Clock::now(), lookout_interval(route_.timeout()));
  lookout_ = std::make_unique<Lookout>(
      context_, route_, claim().lock, *confirmed_by_, begin,
      [this](const ServerAddress& server) { use_instead(server); });
}

// Called when `server` is named in the place of the one that last confirmed the lease.
void RedisClaimant::use_instead(const ServerAddress& server) {
  if (asked_ != nullptr) {
    if (asked_->target().address() == server) return;
    asked_->distrust();
  }
  if (renewing_ != nullptr) renewing_->give_up(true);
  if (const auto on_news = on_news_.lock()) (*on_news)();
}

asio::awaitable<Renewal> RedisClaimant::renew_within_budget(Wakeup& wakeup) {
  const auto call = route_.new_call(wakeup);
  auto* node = co_await route_.open(claim().lock, call);
  asked_ = node;
  auto inquiry = route_.inquire(*node, Clock::now(), call.until);
  // Usually answered at once. A primary that was replaced has lost its replicas, and
  // waiting for them would take the time in which the new primary can be asked.
  // Missing replies are not a veto: without the sentinels, a healthy primary still
  // protects.
  auto opinion = Opinion::unknown;
  if (inquiry) opinion = co_await inquiry->opinion(call.share(4));
  if (opinion == Opinion::denied) co_await leave(*node, call);
  auto response = co_await set_lease(call);
  opinion = Opinion::unknown;
  if (inquiry && response.node == node)
    opinion = co_await inquiry->opinion(call.share(2));
  if (opinion == Opinion::denied) {
    co_await leave(*node, call);
    response = co_await set_lease(call);
    if (response.node == node) throw not_confirmed(response);
  }
  auto renewal = response.checked(renewal_from(response.reply()));
  if (const auto ttl = renewed_ttl_from(response.reply())) keep_ttl(*ttl);
  if (renewal == Renewal::gone || renewal == Renewal::taken_over) {
    if (claim().attached) renewal = co_await found_lost(renewal, response, call);
  } else if (renewal != Renewal::broken) {
    co_await check_replicas(response, call);
  }
  if (renewal == Renewal::broken) taken_by_ = taker_from(response.reply());
  if (!is_loss(renewal)) confirmed_by_ = response.node;
  if (const auto listener = listener_.lock()) listener->follow(response.node->target());
  co_return renewal;
}

// Opens the connection to the server that has taken its place, or to itself if there is
// none.
asio::awaitable<void> RedisClaimant::leave(Node& node, Call call) {
  node.distrust();
  asked_ = co_await route_.open(claim().lock, call);
}

asio::awaitable<Response> RedisClaimant::set_lease(Call call) {
  auto args = renew_arguments(claim(), grant_.fence);
  const auto& script = claim().attached ? renew_script : set_lease_script;
  co_return co_await route_.run(script, claim().lock, std::move(args), call,
                                Durability::replicas);
}

// A new primary may lack writes of the one that granted the lease. There the last grant
// shows whether the lock was granted to another claim since. On the same server, a
// missing lease was removed on purpose.
asio::awaitable<Renewal> RedisClaimant::found_lost(Renewal said, const Response& response,
                                                   Call call) {
  const bool has_failed_over = confirmed_by_ != nullptr && confirmed_by_ != response.node;
  if (!claim().reclaim && !has_failed_over) co_return said;
  const auto renewal = co_await reclaim(call);
  if (renewal == Renewal::reclaimed || !has_failed_over) co_return renewal;
  co_return Renewal::failed_over;
}

std::unique_ptr<LeaseNews> RedisClaimant::listen(std::function<void()> on_news) {
  if (!claim().attached) return nullptr;  // those are not notified
  auto list = key_of(claim().lock) + ":b:" + std::to_string(grant_.fence.number);
  auto listening =
      std::make_unique<BreakNews>(*confirmed_by_, std::move(list), std::move(on_news));
  listener_ = listening->listener();
  on_news_ = listening->on_news();
  return listening;
}

asio::awaitable<Renewal> RedisClaimant::reclaim(Call call) {
  auto args = reclaim_arguments(claim(), grant_, after_);
  // If it arrives too late, it must not set up a lease that was released meanwhile.
  expect_answer();
  const auto response = co_await route_.run(reclaim_script, claim().lock, std::move(args),
                                            call, Durability::replicas);
  known_ = Known::answered;
  const auto renewal = response.checked(renewal_from(response.reply()));
  if (renewal == Renewal::reclaimed) co_await check_replicas(response, call);
  co_return renewal;
}

}  // namespace dlock::redis
