// RedisClaimant: confirming a grant, and keeping the lease.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <utility>

#include "store/redis/records.hpp"
#include "store/redis/redis_claimant.hpp"
#include "store/redis/redis_news.hpp"
#include "store/redis/script_calls.hpp"

namespace dlock::redis {
namespace {

Failure not_on_replicas(const Response& response, unsigned wanted) {
  return Failure(Failure::Kind::unreachable,
                 response.node->name() + ": " + std::to_string(response.acknowledged) +
                     " of " + std::to_string(wanted) +
                     " replicas have acknowledged the lease (--replicas)");
}

Failure not_confirmed(const Response& response) {
  return Failure(Failure::Kind::unreachable,
                 "no majority of the sentinels confirms that " + response.node->name() +
                     " is the primary");
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
  if (response.acknowledged < wanted) throw not_on_replicas(response, wanted);
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
  const auto soon = call.share(4);
  if (inquiry && co_await is_denied(*inquiry, soon)) {
    co_await leave(*node, call);
  }
  auto response = co_await set_lease(call);
  const auto half = call.share(2);
  if (inquiry && response.node == node && co_await is_denied(*inquiry, half)) {
    co_await leave(*node, call);
    response = co_await set_lease(call);
    if (response.node == node) throw not_confirmed(response);
  }
  auto renewal = renewal_from(response.reply());
  if (!renewal) throw response.failure();
  if (const auto ttl = renewed_ttl_from(response.reply())) keep_ttl(*ttl);
  if (*renewal == Renewal::gone || *renewal == Renewal::taken_over) {
    if (claim().attached) renewal = co_await found_lost(*renewal, response, call);
  } else if (*renewal != Renewal::broken) {
    co_await check_replicas(response, call);
  }
  if (*renewal == Renewal::broken) taken_by_ = taker_from(response.reply());
  if (!is_loss(*renewal)) confirmed_by_ = response.node;
  if (const auto listener = listener_.lock()) listener->follow(response.node->target());
  co_return *renewal;
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

// Missing replies are not a veto: without the sentinels, a healthy primary still
// protects.
asio::awaitable<bool> RedisClaimant::is_denied(Inquiry& inquiry, Call call) {
  const auto opinion = co_await inquiry.opinion(call);
  co_return opinion == Opinion::denied;
}

// A new primary may lack writes of the one that granted the lease. There the last grant
// shows whether the lock was granted to another claim since. On the same server, a
// missing lease was removed on purpose.
asio::awaitable<Renewal> RedisClaimant::found_lost(Renewal said, const Response& response,
                                                   Call call) {
  const bool has_failed_over = is_elsewhere(response);
  if (!claim().reclaim && !has_failed_over) co_return said;
  const auto renewal = co_await reclaim(call);
  if (renewal == Renewal::reclaimed || !has_failed_over) co_return renewal;
  co_return Renewal::failed_over;
}

bool RedisClaimant::is_elsewhere(const Response& response) const {
  return confirmed_by_ != nullptr && confirmed_by_ != response.node;
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
  const auto renewal = renewal_from(response.reply());
  if (!renewal) throw response.failure();
  if (*renewal == Renewal::reclaimed) co_await check_replicas(response, call);
  co_return *renewal;
}

}  // namespace dlock::redis
