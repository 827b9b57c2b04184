// RedisClaimant: confirming a grant, keeping the lease, and releasing it.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <utility>

#include "store/redis/answers.hpp"
#include "store/redis/arguments.hpp"
#include "store/redis/keys.hpp"
#include "store/redis/listener.hpp"
#include "store/redis/records.hpp"
#include "store/redis/redis_claimant.hpp"

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
class Listening final : public LeaseNews {
 public:
  Listening(const Node& node, std::string list, std::function<void()> heard)
      : listener_(std::make_shared<Listener>(node.context(), node.target(),
                                             std::move(list), node.timeout())) {
    asio::co_spawn(node.context(), listener_->listen(std::move(heard)),
                   [listener = listener_](const std::exception_ptr&) {});
  }
  ~Listening() override { listener_->stop(); }
  std::shared_ptr<Listener> listener() const { return listener_; }
  void stop() override { listener_->stop(); }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  std::shared_ptr<Listener> listener_;
};

}  // namespace

// A grant counts only if the sentinels confirm that the server is the primary, and if
// enough replicas have acknowledged it. Otherwise it is released.
asio::awaitable<void> RedisClaimant::make_certain(const Response& response,
                                                  Clock::time_point began,
                                                  Clock::time_point until,
                                                  Wakeup& wakeup) {
  std::optional<Failure> failure;
  try {
    if (auto inquiry = route_.inquire(*response.node, began, until)) {
      const auto word = co_await inquiry->opinion(until, wakeup);
      if (word != Opinion::confirmed) failure = not_confirmed(response);
    }
    if (!failure) co_await check_replicas(response, until, wakeup);
  } catch (const Failure& error) {
    failure = error;
  }
  if (!failure) co_return;
  try {
    co_await release_grant(wakeup);
  } catch (const Failure&) {
    // Then it expires by itself.
  }
  response.node->distrust();
  throw *failure;
}

// Checked after the number of replicas was updated during the request, so that a replica
// that has come back counts, too.
asio::awaitable<void> RedisClaimant::check_replicas(const Response& response,
                                                    Clock::time_point until,
                                                    Wakeup& wakeup) {
  const auto wanted = co_await route_.replicas_of(*response.node, until, wakeup);
  if (response.acknowledged < wanted) throw not_on_replicas(response, wanted);
}

asio::awaitable<Release> RedisClaimant::release(const std::optional<RunEnd>& end,
                                                Wakeup& wakeup) {
  if (!end || !end->leaves_lease) co_return co_await give_back(end, wakeup);
  // The lease stays, whether or not the server learns how the run ended.
  try {
    const auto answer = co_await give_back(end, wakeup);
    co_return answer == Release::released ? Release::left : answer;
  } catch (const Failure&) {
    known_ = Known::nothing;
    co_return Release::left;
  }
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
  const auto until =
      later(Clock::now(), wakeup.gives_up() ? std::min(route_.timeout(), last_patience)
                                            : route_.timeout());
  const bool may_come_late = may_come_late_ || known_ == Known::unanswered;
  auto args = release_arguments(claim(), end, waiter_id_, fence, may_come_late);
  Response response;
  if (ballot_ && may_come_late) {
    response = co_await tell_all(args, until, own);
  } else {
    response = co_await route_.run(release_script, claim().lock, args, until, own);
  }
  auto released = release_from(response.reply());
  const bool vanished = released == Release::gone || released == Release::taken_over;
  if (vanished) {
    auto renewal = Renewal::gone;
    try {
      renewal = co_await found_lost(renewal, response, until, own);
    } catch (const Failure&) {
      // The loss is known nevertheless.
    }
    if (renewal == Renewal::reclaimed) {
      // The lock was not granted to another claim meanwhile.
      response =
          co_await route_.run(release_script, claim().lock, std::move(args), until, own);
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
// after we have exited, and then only the first one. So the first one tells it to refuse
// the request for the lock that may still arrive.
asio::awaitable<Response> RedisClaimant::tell_all(const std::vector<std::string>& args,
                                                  Clock::time_point until,
                                                  Wakeup& wakeup) {
  const auto keys = route_.keys_for(release_script, claim().lock);
  Command release{"EVAL", release_script.text, std::to_string(keys.size())};
  release.insert(release.end(), keys.begin(), keys.end());
  release.insert(release.end(), args.begin(), args.end());
  std::vector<Command> commands;
  commands.push_back({"SET", keys.front() + ":t:" + text_of(claim().token), "1", "PX",
                      std::to_string(comes_late_by.count())});
  commands.push_back(std::move(release));
  auto response =
      co_await route_.exchange(claim().lock, std::move(commands), until, wakeup);
  response.replies.erase(response.replies.begin());
  co_return response;
}

// Does not make the server refuse late requests, as that would also refuse this claim. It
// names the fence of the grant, so that it cannot release a newer grant if it is late.
asio::awaitable<void> RedisClaimant::release_grant(Wakeup& wakeup) {
  auto args = revoke_arguments(claim(), waiter_id_, grant_.fence);
  const auto response =
      co_await route_.run(release_script, claim().lock, std::move(args), wakeup);
  if (!release_from(response.reply())) throw response.failure();
}

asio::awaitable<Renewal> RedisClaimant::renew(Wakeup& wakeup) {
  const auto until = route_.budget_end();
  auto* node = co_await route_.open(claim().lock, until, wakeup);
  auto inquiry = route_.inquire(*node, Clock::now(), until);
  // Usually answered at once. A primary that was replaced has lost its replicas, and
  // waiting for them would take the time in which the new primary can be asked.
  const auto soon = Clock::now() + (until - Clock::now()) / 4;
  if (inquiry && co_await is_denied(*inquiry, soon, wakeup)) node->distrust();
  auto response = co_await set_lease(until, wakeup);
  const auto half = Clock::now() + (until - Clock::now()) / 2;
  if (inquiry && response.node == node && co_await is_denied(*inquiry, half, wakeup)) {
    node->distrust();
    response = co_await set_lease(until, wakeup);
    if (response.node == node) throw not_confirmed(response);
  }
  auto renewal = renewal_from(response.reply());
  if (!renewal) throw response.failure();
  if (*renewal == Renewal::gone || *renewal == Renewal::taken_over) {
    if (claim().attached)
      renewal = co_await found_lost(*renewal, response, until, wakeup);
  } else if (*renewal != Renewal::broken) {
    co_await check_replicas(response, until, wakeup);
  }
  if (*renewal == Renewal::broken) taken_by_ = taker_from(response.reply());
  if (!is_loss(*renewal)) confirmed_by_ = response.node;
  if (const auto listener = listener_.lock()) listener->follow(response.node->target());
  co_return *renewal;
}

asio::awaitable<Response> RedisClaimant::set_lease(Clock::time_point until,
                                                   Wakeup& wakeup) {
  auto args = renew_arguments(claim(), grant_.fence);
  const auto& script = claim().attached ? renew_script : set_lease_script;
  co_return co_await route_.run(script, claim().lock, std::move(args), until, wakeup,
                                Durability::replicas);
}

// Missing replies are not a veto: without the sentinels, a healthy primary still
// protects.
asio::awaitable<bool> RedisClaimant::is_denied(Inquiry& inquiry, Clock::time_point until,
                                               Wakeup& wakeup) {
  const auto word = co_await inquiry.opinion(until, wakeup);
  co_return word == Opinion::denied;
}

// A new primary may lack writes of the one that granted the lease. There the last fence
// shows whether the lock was granted to another claim since. On the same server, a
// missing lease was removed on purpose.
asio::awaitable<Renewal> RedisClaimant::found_lost(Renewal said, const Response& response,
                                                   Clock::time_point until,
                                                   Wakeup& wakeup) {
  const bool has_failed_over = is_elsewhere(response);
  if (!claim().reclaim && !has_failed_over) co_return said;
  const auto renewal = co_await reclaim(until, wakeup);
  if (renewal == Renewal::reclaimed || !has_failed_over) co_return renewal;
  co_return Renewal::failed_over;
}

bool RedisClaimant::is_elsewhere(const Response& response) const {
  return confirmed_by_ != nullptr && confirmed_by_ != response.node;
}

std::unique_ptr<LeaseNews> RedisClaimant::listen(std::function<void()> heard) {
  if (!claim().attached) return nullptr;  // those are not notified
  auto list = key_of(claim().lock) + ":b:" + std::to_string(grant_.fence.number);
  auto listening =
      std::make_unique<Listening>(*confirmed_by_, std::move(list), std::move(heard));
  listener_ = listening->listener();
  return listening;
}

asio::awaitable<Renewal> RedisClaimant::reclaim(Clock::time_point until, Wakeup& wakeup) {
  auto args = reclaim_arguments(claim(), grant_);
  // If it arrives too late, it must not set up a lease that was released meanwhile.
  expect_answer();
  const auto response = co_await route_.run(reclaim_script, claim().lock, std::move(args),
                                            until, wakeup, Durability::replicas);
  known_ = Known::answered;
  const auto renewal = renewal_from(response.reply());
  if (!renewal) throw response.failure();
  if (*renewal == Renewal::reclaimed) co_await check_replicas(response, until, wakeup);
  co_return *renewal;
}

}  // namespace dlock::redis
