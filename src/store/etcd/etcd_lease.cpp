// EtcdClaimant: the lease that its entry hangs on, and what became of it.
#include <utility>

#include "store/etcd/etcd_claimant.hpp"
#include "store/etcd/keys.hpp"
#include "store/etcd/lease_time.hpp"
#include "store/etcd/news.hpp"
#include "util/random.hpp"

namespace dlock::etcd {
namespace {

// What part of its ttl a lease may have lost before a claim enters with it.
constexpr int may_have_lost = 10;

// The one key of an entry.
RangeRequest only(const LockName& lock, const std::string& id) {
  RangeRequest request;
  request.key = line_of(lock) + id;
  return request;
}

Failure too_short(std::int64_t seconds) {
  return Failure(
      Failure::Kind::unreachable,
      "etcd granted a lease of " + std::to_string(seconds) + " s, less than requested");
}

Failure leader_changed() {
  return Failure(Failure::Kind::unreachable,
                 "the cluster's leader changed during the renewal");
}

}  // namespace

void EtcdClaimant::forget_lease() {
  lease_ = 0;
  lasts_from_.reset();
}

// Has a lease that lasts from just now.
asio::awaitable<void> EtcdClaimant::have_lease(Turn& turn) {
  const auto is_fresh = [this] {
    return lasts_from_ && Clock::now() - *lasts_from_ < claim().ttl / may_have_lost;
  };
  while (!is_fresh()) {
    if (lease_ != 0) {
      co_await extend(turn.until, turn.wakeup);
      if (lasts_from_) break;
    }
    // By what is known of it, there is none.
    lease_ = lease_for(claim().token, times_);
    const auto sent_at = Clock::now();
    LeaseGrantRequest request{lease_, seconds_for(claim())};
    const auto granted = co_await calls_.lease_grant(request, turn.until, turn.wakeup);
    if (take_granted(granted, sent_at)) break;
  }
}

// False if it is there already, by a request whose answer was lost.
bool EtcdClaimant::take_granted(const LeaseGrantResult& granted,
                                Clock::time_point sent_at) {
  if (granted.exists) return false;
  if (!covers(granted.ttl, claim())) throw too_short(granted.ttl);
  lasts_from_ = sent_at;
  return true;
}

// Renews the lease, and looks at the entry on it; nothing if either is gone. A member
// that led the cluster and does not know yet that another one does (it was stopped, say)
// may still say that it has renewed a lease (etcd issue 15247). A look has to be
// confirmed by most members; if it was made in the same term, nobody else had become the
// leader before either was sent.
asio::awaitable<std::optional<Entry>> EtcdClaimant::extend(Clock::time_point until,
                                                           Wakeup& wakeup) {
  constexpr int tries = 3;
  for (int i = 0; i < tries; ++i) {
    std::vector<Request> requests;
    requests.emplace_back(LeaseKeepAliveRequest{lease_});
    requests.emplace_back(only(claim().lock, id()));
    const auto sent_at = Clock::now();
    const auto results =
        co_await calls_.together(std::move(requests), Repeat::freely, until, wakeup);
    const auto& alive = std::get<LeaseKeepAliveResult>(results.at(0));
    const auto& look = std::get<RangeResult>(results.at(1));
    if (alive.term != look.term) continue;
    if (alive.ttl == 0) {
      forget_lease();
      co_return std::nullopt;
    }
    if (!covers(alive.ttl, claim())) throw too_short(alive.ttl);
    lasts_from_ = sent_at;
    if (look.pairs.empty()) co_return std::nullopt;
    co_return entry_from(look.pairs.front(), line_of(claim().lock));
  }
  throw leader_changed();
}

asio::awaitable<Renewal> EtcdClaimant::renew(Wakeup& wakeup) {
  Turn turn{Queue::stay_out, calls_.budget_end(), wakeup, {}};
  if (!claim().attached) co_return co_await renew_detached(turn);
  const auto entry = co_await extend(turn.until, turn.wakeup);
  const bool is_own = entry && own_ && entry->created == own_->created && entry->holds();
  if (!is_own) co_return co_await found_lost(turn);
  own_ = *entry;
  taken_by_ = entry->taken_by;
  co_return entry->standing == Standing::broken ? Renewal::broken : Renewal::confirmed;
}

// Any client that knows the token may, so the store is asked what there is to renew.
asio::awaitable<Renewal> EtcdClaimant::renew_detached(Turn& turn) {
  co_await look(turn);
  adopt(turn.line);
  std::optional<Entry> entry;
  if (own_ && own_->standing == Standing::holds && !own_->attached) {
    if (own_->ttl == seconds_for(claim())) {
      entry = co_await extend(turn.until, turn.wakeup);
    } else {
      entry = co_await move_to_new_lease(*own_, turn);
    }
  }
  if (entry) {
    own_ = *entry;
    co_return Renewal::confirmed;
  }
  co_return co_await found_lost(turn);
}

// Has the entry hang on a lease that is certainly new; it lasts from the time returned.
asio::awaitable<Clock::time_point> EtcdClaimant::hang_on_new_lease(Entry& entry,
                                                                   Turn& turn) {
  Token any;
  any.bytes = random_bytes();
  entry.lease = lease_for(any);
  const auto sent_at = Clock::now();
  LeaseGrantRequest request{entry.lease, entry.ttl};
  const auto granted = co_await calls_.lease_grant(request, turn.until, turn.wakeup);
  if (!covers(granted.ttl, claim())) throw too_short(granted.ttl);
  co_return sent_at;
}

// A lease lasts as long as it was granted for: for another time it takes another one.
// Nothing if the entry is not as it was.
asio::awaitable<std::optional<Entry>> EtcdClaimant::move_to_new_lease(const Entry& entry,
                                                                      Turn& turn) {
  auto moved = entry;
  moved.ttl = seconds_for(claim());
  const auto sent_at = co_await hang_on_new_lease(moved, turn);
  auto step = rewrite(scene(), moved);
  const auto result = co_await write(std::move(step), turn);
  if (result.succeeded) {
    moved.modified = result.revision;
  } else {
    // Void also if it was done before, and the answer was lost.
    const auto done = entry_on(moved.lease, result, turn);
    if (!done) {
      co_await revoke(moved.lease, turn);
      co_return std::nullopt;
    }
    moved = *done;
  }
  co_await revoke(entry.lease, turn);
  lease_ = moved.lease;
  lasts_from_ = sent_at;
  co_return moved;
}

// The own entry if it hangs on that lease, by what a step found that was void.
std::optional<Entry> EtcdClaimant::entry_on(std::int64_t lease, const TxnResult& result,
                                            Turn& turn) {
  if (result.lease_gone) return std::nullopt;
  turn.line = line_from(claim().lock, result);
  const auto* entry = entry_of(turn.line, id());
  const bool is_there = entry != nullptr && !entry->foreign && entry->lease == lease;
  return is_there ? std::optional(*entry) : std::nullopt;
}

asio::awaitable<Renewal> EtcdClaimant::found_lost(Turn& turn) {
  if (claim().reclaim && claim().attached && own_) {
    const bool is_back = co_await set_up_again(turn);
    if (is_back) co_return Renewal::reclaimed;
  } else {
    co_await look(turn);
  }
  co_return is_taken_over(turn.line, id()) ? Renewal::taken_over : Renewal::gone;
}

// Whether the lease that had vanished is there again: nobody was granted the lock since.
asio::awaitable<bool> EtcdClaimant::set_up_again(Turn& turn) {
  co_await look(turn);
  const auto* there = entry_of(turn.line, id());
  if (there != nullptr && there->holds() && there->fence() == own_->fence()) {
    // Done before, and the answer was lost.
    adopt(turn.line);
    const auto entry = co_await extend(turn.until, turn.wakeup);
    if (entry) own_ = *entry;
    co_return entry.has_value();
  }
  if (!can_be_set_up_again(turn.line, *own_)) co_return false;
  auto own = *own_;  // under the name that it had
  own.set_up_again = own.fence();
  own.modified = 0;
  const auto sent_at = co_await hang_on_new_lease(own, turn);
  const auto line = turn.line;
  auto step = etcd::set_up_again(scene(), line, own);
  const auto result = co_await write(std::move(step), turn);
  if (result.succeeded) {
    own.created = result.revision;
    own.modified = result.revision;
  } else {
    const auto done = entry_on(own.lease, result, turn);
    if (!done) {
      co_await revoke(own.lease, turn);
      co_return false;
    }
    own = *done;
  }
  own_ = own;
  lease_ = own.lease;
  lasts_from_ = sent_at;
  co_return true;
}

std::unique_ptr<LeaseNews> EtcdClaimant::listen(std::function<void()> heard) {
  if (!claim().attached || !own_) return nullptr;  // nobody is told of those
  return news_of(calls_, line_of(claim().lock) + id(), own_->modified, std::move(heard));
}

}  // namespace dlock::etcd
