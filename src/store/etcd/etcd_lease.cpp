// EtcdClaimant: the lease of its entry, and how it was lost.
#include <utility>

#include "store/etcd/etcd_claimant.hpp"
#include "store/etcd/keys.hpp"
#include "store/etcd/lease_time.hpp"
#include "store/etcd/news.hpp"
#include "util/random.hpp"

namespace dlock::etcd {
namespace {

// The part of its ttl that a lease may have used up before a claim takes the lock with
// it.
constexpr int may_have_lost = 10;

// The one key of an entry.
RangeRequest only(const LockName& lock, const std::string& id) {
  RangeRequest request;
  request.key = queue_prefix(lock) + id;
  return request;
}

Failure too_short(std::int64_t seconds) {
  return Failure(
      Failure::Kind::unreachable,
      "etcd granted a lease of " + std::to_string(seconds) + " s, less than requested");
}

std::int64_t any_lease() {
  Token any;
  any.bytes = random_bytes();
  return lease_for(any);
}

Failure leader_changed() {
  return Failure(Failure::Kind::unreachable,
                 "the cluster's leader changed during the renewal");
}

}  // namespace

void EtcdClaimant::forget_lease() {
  lease_ = 0;
  lease_term_ = 0;
  lasts_from_.reset();
}

void EtcdClaimant::use(const NewLease& fresh, std::int64_t lease) {
  lease_ = lease;
  lease_term_ = fresh.term;
  lasts_from_ = fresh.sent_at;
}

// Obtains or renews the lease, so that it counts from now.
asio::awaitable<void> EtcdClaimant::have_lease(CallContext& call) {
  const auto is_fresh = [this] {
    return lasts_from_ && Clock::now() - *lasts_from_ < claim().ttl / may_have_lost;
  };
  while (!is_fresh()) {
    if (lease_ != 0) {
      co_await extend(call.until, call.wakeup);
      if (lasts_from_) break;
    }
    // As far as is known, there is none.
    lease_ = has_replaced_lease_ ? any_lease() : lease_for(claim().token, times_);
    const auto sent_at = Clock::now();
    LeaseGrantRequest request{lease_, seconds_for(claim())};
    const auto granted = co_await calls_.lease_grant(request, call.until, call.wakeup);
    if (take_granted(granted, sent_at)) break;
  }
}

// False if it exists already, from a request whose reply was lost.
bool EtcdClaimant::take_granted(const LeaseGrantResult& granted,
                                Clock::time_point sent_at) {
  if (granted.exists) return false;
  if (!covers(granted.ttl, claim())) throw too_short(granted.ttl);
  use({sent_at, granted.term}, lease_);
  return true;
}

// Renews the lease and reads its entry; nothing if either is gone.
//
// A former leader that does not know yet that it was replaced (it was stopped, for
// example) may still report a renewal as successful (etcd issue 15247). A linearizable
// read is confirmed by a majority of the members; if it has the same term, no other
// leader was elected before both were sent.
//
// When a former leader continues, it may also end the leases that it granted or renewed,
// although the next leader has renewed them since. So after each change of the leader the
// entry is attached to a new lease, which no former leader knows. A former leader sees
// the lease end a full ttl after it renewed it. By then the entry has the new one, or our
// deadline has passed.
asio::awaitable<std::optional<Entry>> EtcdClaimant::extend(Clock::time_point until,
                                                           Wakeup& wakeup) {
  constexpr int tries = 5;
  CallContext call{Queue::stay_out, until, wakeup, {}};
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
    const bool is_of_this_term = alive.term == lease_term_;
    std::optional<Entry> entry;
    if (!look.pairs.empty()) {
      entry = entry_from(look.pairs.front(), queue_prefix(claim().lock));
    }
    if (!entry || entry->foreign) {
      if (is_of_this_term) {
        lasts_from_ = sent_at;
      } else {
        has_replaced_lease_ = true;
        co_await revoke(lease_, call);
        forget_lease();
      }
      co_return std::nullopt;
    }
    const bool is_attached = entry->lease == lease_;
    if (!is_attached && entry->lease != 0) {  // the reply about a new lease was lost
      forget_lease();
      lease_ = entry->lease;
      continue;
    }
    if (is_attached && is_of_this_term) {
      lasts_from_ = sent_at;
      co_return entry;
    }
    if (auto moved = co_await move_to_new_lease(*entry, call)) co_return moved;
  }
  throw leader_changed();
}

asio::awaitable<Renewal> EtcdClaimant::renew(Wakeup& wakeup) {
  CallContext call{Queue::stay_out, calls_.budget_end(), wakeup, {}};
  if (!claim().attached) co_return co_await renew_detached(call);
  const auto entry = co_await extend(call.until, call.wakeup);
  const bool is_own = entry && own_ && entry->created == own_->created && entry->holds();
  if (!is_own) co_return co_await found_lost(call);
  own_ = *entry;
  taken_by_ = entry->taken_by;
  co_return entry->standing == Standing::broken ? Renewal::broken : Renewal::confirmed;
}

// Any client that knows the token may renew, so the lease is looked up in the store.
asio::awaitable<Renewal> EtcdClaimant::renew_detached(CallContext& call) {
  co_await look(call);
  adopt(call.snapshot);
  std::optional<Entry> entry;
  if (own_ && claim().keeps_ttl) {
    const auto ttl = own_->acquired_ttl != 0 ? own_->acquired_ttl : own_->ttl;
    if (ttl > 0) keep_ttl(std::chrono::seconds(ttl));
  }
  if (own_ && own_->standing == Standing::holds && !own_->attached) {
    if (own_->ttl == seconds_for(claim())) {
      entry = co_await extend(call.until, call.wakeup);
    } else {
      entry = co_await move_to_new_lease(*own_, call);
    }
  }
  if (entry) {
    own_ = *entry;
    co_return Renewal::confirmed;
  }
  co_return co_await found_lost(call);
}

// Attaches the entry to a new lease.
asio::awaitable<EtcdClaimant::NewLease> EtcdClaimant::attach_to_new_lease(
    Entry& entry, CallContext& call) {
  entry.lease = any_lease();
  const auto sent_at = Clock::now();
  LeaseGrantRequest request{entry.lease, entry.ttl};
  const auto granted = co_await calls_.lease_grant(request, call.until, call.wakeup);
  if (!covers(granted.ttl, claim())) throw too_short(granted.ttl);
  co_return NewLease{sent_at, granted.term};
}

// For another duration, which etcd cannot change, or another leader. Nothing if the entry
// has changed.
asio::awaitable<std::optional<Entry>> EtcdClaimant::move_to_new_lease(const Entry& entry,
                                                                      CallContext& call) {
  auto moved = entry;
  moved.ttl = seconds_for(claim());
  if (moved.ttl != entry.ttl && entry.acquired_ttl == 0) moved.acquired_ttl = entry.ttl;
  const auto fresh = co_await attach_to_new_lease(moved, call);
  auto step = rewrite(step_context(), moved);
  const auto result = co_await write(std::move(step), call);
  if (result.succeeded) {
    moved.modified = result.revision;
  } else {
    // It also has no effect if it was done before and the reply was lost.
    const auto done = entry_on(moved.lease, result, call);
    if (!done) {
      co_await revoke(moved.lease, call);
      co_return std::nullopt;
    }
    moved = *done;
  }
  use(fresh, moved.lease);
  co_await revoke(entry.lease, call);
  co_return moved;
}

// Our entry if it is attached to that lease, from the results of a step without effect.
std::optional<Entry> EtcdClaimant::entry_on(std::int64_t lease, const TxnResult& result,
                                            CallContext& call) {
  if (result.lease_gone) return std::nullopt;
  call.snapshot = snapshot_from(claim().lock, result);
  const auto* entry = entry_of(call.snapshot, id());
  const bool is_there = entry != nullptr && !entry->foreign && entry->lease == lease;
  return is_there ? std::optional(*entry) : std::nullopt;
}

asio::awaitable<Renewal> EtcdClaimant::found_lost(CallContext& call) {
  co_await look(call);
  if (own_ && claim().attached) {
    if (const auto taker = forced_by(call.snapshot.runs, own_->fence())) {
      taken_by_ = taker;
      co_return Renewal::broken;
    }
    const bool is_back = claim().reclaim && co_await set_up_again(call);
    if (is_back) co_return Renewal::reclaimed;
  }
  co_return is_taken_over(call.snapshot, id()) ? Renewal::taken_over : Renewal::gone;
}

// Sets up the vanished lease again, if the lock was not granted to another claim since.
asio::awaitable<bool> EtcdClaimant::set_up_again(CallContext& call) {
  co_await look(call);
  const auto* there = entry_of(call.snapshot, id());
  if (there != nullptr && there->holds() && there->fence() == own_->fence()) {
    // Done before; the reply was lost.
    adopt(call.snapshot);
    const auto entry = co_await extend(call.until, call.wakeup);
    if (entry) own_ = *entry;
    co_return entry.has_value();
  }
  if (!can_be_set_up_again(call.snapshot, *own_)) co_return false;
  auto own = *own_;  // with its previous id
  own.set_up_again = own.fence();
  own.modified = 0;
  const auto fresh = co_await attach_to_new_lease(own, call);
  const auto snapshot = call.snapshot;
  auto step = etcd::set_up_again(step_context(), snapshot, own);
  const auto result = co_await write(std::move(step), call);
  if (result.succeeded) {
    own.created = result.revision;
    own.modified = result.revision;
  } else {
    const auto done = entry_on(own.lease, result, call);
    if (!done) {
      co_await revoke(own.lease, call);
      co_return false;
    }
    own = *done;
  }
  own_ = own;
  use(fresh, own.lease);
  co_return true;
}

std::unique_ptr<LeaseNews> EtcdClaimant::listen(std::function<void()> on_news) {
  if (!claim().attached || !own_) return nullptr;  // those are not notified
  return news_of(calls_, queue_prefix(claim().lock) + id(), own_->modified,
                 std::move(on_news));
}

}  // namespace dlock::etcd
