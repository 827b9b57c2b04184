// RedisClaimant: releasing a lease, or a place in the queue.
#include <algorithm>
#include <utility>

#include "store/redis/answers.hpp"
#include "store/redis/arguments.hpp"
#include "store/redis/keys.hpp"
#include "store/redis/lookout.hpp"
#include "store/redis/redis_claimant.hpp"

namespace dlock::redis {

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

}  // namespace dlock::redis
