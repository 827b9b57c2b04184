// EtcdClaimant: the lease of its entry, how it was lost, and the sleep until it may be
// its turn.
#include <algorithm>
#include <utility>

#include "rules/keeping.hpp"
#include "rules/look.hpp"
#include "store/etcd/etcd_claimant.hpp"
#include "store/etcd/etcd_entry.hpp"

namespace dlock::etcd {

namespace {

// The part of its ttl that a lease may have used up before a claim takes the lock with
// it.
constexpr int may_have_lost = 10;

Failure bad_grant(const std::string& how) {
  return Failure(Failure::Kind::unreachable, "etcd granted a lease " + how);
}

Failure always_changed() {
  return Failure(Failure::Kind::unreachable, "the entry changed during each renewal");
}

}  // namespace

// What is known of the lease before is not true of this one.
void EtcdClaimant::change_lease(std::int64_t to) {
  if (lease_ == to) return;
  if (lease_ != 0) former_leases_.insert(lease_);
  former_leases_.erase(to);
  lease_ = to;
  lease_term_ = 0;
  lasts_from_.reset();
}

void EtcdClaimant::use(const NewLease& fresh) {
  change_lease(fresh.id);
  lease_term_ = fresh.term;
  lasts_from_ = fresh.sent_at;
}

// Revoking a lease deletes its keys and voids requests that arrive late; otherwise a
// request with a former lease could still set up an entry. Only after a write has shown
// that the entry has another lease or none: a read can be older than a move. What cannot
// be revoked now is tried again at the next renewal or release, and expires by itself:
// this returns why.
asio::awaitable<std::optional<Failure>> EtcdClaimant::revoke_former_leases(
    CallContext& call) {
  std::optional<Failure> failure;
  if (former_leases_.empty()) co_return failure;
  std::vector<Request> requests;
  for (const auto lease : former_leases_) {
    requests.emplace_back(LeaseRevokeRequest{lease});
  }
  try {
    co_await calls_.together(std::move(requests), Repeat::freely, call);
    former_leases_.clear();
  } catch (const Failure& error) {
    failure = error;
  }
  co_return failure;
}

// Obtains or renews the lease, so that it counts from now.
asio::awaitable<void> EtcdClaimant::have_lease(CallContext& call) {
  const auto is_fresh = [this] {
    return lasts_from_ && Clock::now() - *lasts_from_ < claim().ttl / may_have_lost;
  };
  if (is_fresh()) co_return;
  if (lease_ != 0) {
    co_await extend(call);
    if (lasts_from_) co_return;
  }
  use(co_await grant_lease(seconds_for(claim()), call));
}

// The cluster chooses the id, another one for each repetition of the request: one that
// arrives late does not bring back the lease of an earlier one, which may be revoked.
EtcdClaimant::NewLease EtcdClaimant::new_lease(const LeaseGrantResult& granted,
                                               std::int64_t seconds,
                                               Clock::time_point sent_at) {
  if (granted.id == 0) throw bad_grant("without an id");
  if (granted.ttl < seconds) {
    throw bad_grant("of " + std::to_string(granted.ttl) + " s, less than requested");
  }
  return {sent_at, granted.id, granted.term};
}

asio::awaitable<EtcdClaimant::NewLease> EtcdClaimant::grant_lease(std::int64_t seconds,
                                                                  CallContext& call) {
  LeaseGrantRequest request;
  request.ttl = seconds;
  const auto sent_at = Clock::now();
  const auto granted = co_await calls_.lease_grant(request, call);
  co_return new_lease(granted, seconds, sent_at);
}

// For one to which nothing is attached yet.
asio::awaitable<void> EtcdClaimant::replace_lease(CallContext& call) {
  const auto former = lease_;
  forget_lease();
  const auto seconds = seconds_for(claim());
  std::vector<Request> requests;
  requests.emplace_back(LeaseRevokeRequest{former});
  requests.emplace_back(LeaseGrantRequest{0, seconds});
  const auto sent_at = Clock::now();
  const auto results =
      co_await calls_.together(std::move(requests), Repeat::freely, call);
  former_leases_.erase(former);
  use(new_lease(std::get<LeaseGrantResult>(results.at(1)), seconds, sent_at));
}

// Whether the lease surely lasts its full time from when both were sent.
//
// A former leader that does not know yet that it was replaced (it was stopped, for
// example) may still report a renewal as successful (etcd issue 15247). A write is in the
// log only once a majority of the members has it; if it has the same term, no other
// leader was elected before both were sent. A read does not show that: some versions
// answer it from old data after such a stop (etcd issue 20418).
//
// When a former leader continues, it may also revoke the leases that it granted or
// renewed, although the next leader has renewed them since, and no write of ours prevents
// that. The lease must therefore also be granted in this term. Of the first lease of a
// claim that waits, that is not known: it is asked for with the first request.
bool EtcdClaimant::is_renewed_by(const LeaseKeepAliveResult& alive,
                                 const TxnResult& written) const {
  return covers(alive.ttl, claim()) && written.term != 0 && alive.term == written.term &&
         lease_term_ == written.term;
}

// Renews the lease and reads its entry; nothing if either no longer exists.
//
// If a keep-alive does not surely renew it, the entry is attached to a new lease, which
// needs nothing but writes: after a change of the leader, whose predecessor does not know
// the new lease, and behind a proxy that answers no keep-alive or hides the terms. A
// former leader sees the lease end a full ttl after it renewed it. By then the entry has
// the new one, or our deadline has passed.
asio::awaitable<std::optional<QueueEntry>> EtcdClaimant::extend(Call within) {
  constexpr int tries = 5;
  CallContext call{within};
  for (int i = 0; i < tries; ++i) {
    std::vector<Request> requests;
    requests.emplace_back(LeaseKeepAliveRequest{lease_});
    requests.emplace_back(written_look_at_own(claim().lock, id()));
    const auto sent_at = Clock::now();
    const auto results =
        co_await calls_.together(std::move(requests), Repeat::freely, call);
    const auto& alive = std::get<LeaseKeepAliveResult>(results.at(0));
    const auto& written = std::get<TxnResult>(results.at(1));
    const auto entry = own_entry_from(claim().lock, written);
    if (entry && entry->lease != lease_ && entry->lease != 0) {
      change_lease(entry->lease);  // the reply about a new lease was lost
      continue;
    }
    const bool is_attached = !entry || entry->lease == lease_;
    if (is_attached && is_renewed_by(alive, written)) {
      lasts_from_ = sent_at;
      co_await revoke_former_leases(call);
      co_return entry;
    }
    if (!entry) {
      forget_lease();
      co_await revoke_former_leases(call);
      co_return std::nullopt;
    }
    if (auto moved = co_await move_to_new_lease(*entry, call)) co_return moved;
  }
  throw always_changed();
}

asio::awaitable<Renewal> EtcdClaimant::renew(Wakeup& wakeup) {
  CallContext call{calls_.new_call(wakeup)};
  if (!claim().attached) co_return co_await renew_detached(call);
  const auto entry = co_await extend(call);
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
  std::optional<QueueEntry> entry;
  if (own_ && claim().keeps_ttl) {
    const auto ttl = own_->acquired_ttl != 0 ? own_->acquired_ttl : own_->ttl;
    if (ttl > 0) keep_ttl(std::chrono::seconds(ttl));
  }
  if (own_ && own_->standing == Standing::holds && !own_->attached) {
    if (own_->ttl == seconds_for(claim())) {
      entry = co_await extend(call);
    } else {
      entry = co_await move_to_new_lease(*own_, call);
    }
  }
  // The first look may have been at an older state.
  if (entry && entry->standing == Standing::holds && !entry->attached) {
    own_ = *entry;
    co_return Renewal::confirmed;
  }
  co_return co_await found_lost(call);
}

// For another duration, which etcd cannot change, or because a keep-alive is not enough.
// Nothing if the entry has changed.
asio::awaitable<std::optional<QueueEntry>> EtcdClaimant::move_to_new_lease(
    const QueueEntry& entry, CallContext& call) {
  auto moved = entry;
  moved.ttl = seconds_for(claim());
  if (moved.ttl != entry.ttl && entry.acquired_ttl == 0) moved.acquired_ttl = entry.ttl;
  const auto fresh = co_await grant_lease(moved.ttl, call);
  moved.lease = fresh.id;
  auto step = rewrite(step_context(), moved);
  const auto result = co_await write(std::move(step), call);
  if (result.succeeded) {
    moved.modified = result.revision;
  } else {
    // It also has no effect if it was done before and the reply was lost.
    const auto done = entry_on(moved.lease, result, call);
    if (!done) {
      former_leases_.insert(moved.lease);
      co_return std::nullopt;
    }
    moved = *done;
  }
  change_lease(entry.lease);
  use(fresh);
  co_await revoke_former_leases(call);
  co_return moved;
}

// Our entry if it is attached to that lease, from the results of a step without effect.
std::optional<QueueEntry> EtcdClaimant::entry_on(std::int64_t lease,
                                                 const TxnResult& result,
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
    if (auto taker = rules::forced_by(state_of(call.snapshot), own_->fence())) {
      taken_by_ = std::move(taker);
      co_return Renewal::broken;
    }
    const bool is_back = claim().reclaim && co_await set_up_again(call);
    if (is_back) co_return Renewal::reclaimed;
  }
  const auto loss = rules::loss_of(state_of(call.snapshot, id()), token_of(id()));
  co_return loss == Loss::taken_over ? Renewal::taken_over : Renewal::gone;
}

// Sets up the vanished lease again, if the lock was not granted to another claim since.
asio::awaitable<bool> EtcdClaimant::set_up_again(CallContext& call) {
  co_await look(call);
  const auto* there = entry_of(call.snapshot, id());
  if (there != nullptr && there->holds() && there->fence() == own_->fence()) {
    // Done before; the reply was lost.
    adopt(call.snapshot);
    const auto entry = co_await extend(call);
    if (entry) own_ = *entry;
    co_return entry.has_value();
  }
  if (!can_be_set_up_again(call.snapshot, *own_)) co_return false;
  auto own = *own_;  // with its previous id
  own.set_up_again = own.fence();
  own.modified = 0;
  const auto fresh = co_await grant_lease(own.ttl, call);
  own.lease = fresh.id;
  const auto snapshot = call.snapshot;
  auto step = etcd::set_up_again(step_context(), snapshot, own);
  const auto result = co_await write(std::move(step), call);
  if (result.succeeded) {
    own.created = result.revision;
    own.modified = result.revision;
  } else {
    const auto done = entry_on(own.lease, result, call);
    if (!done) {
      former_leases_.insert(own.lease);
      co_return false;
    }
    own = *done;
  }
  own_ = own;
  use(fresh);
  co_return true;
}

std::unique_ptr<LeaseNews> EtcdClaimant::listen(std::function<void()> on_news) {
  if (!claim().attached || !own_) return nullptr;  // those are not notified
  return news_of(calls_, queue_prefix(claim().lock) + id(), own_->modified,
                 std::move(on_news));
}

namespace {

// The pause before the next attempt if the watch fails.
constexpr milliseconds pause_after_failure{300};

// A waiter is woken when it may be its turn, and asks again. After several waits that
// were over at once, each further one lasts longer, up to a limit: a server that always
// wakes it, or always ends its watch, must not be asked without end.
constexpr milliseconds hardly_waited{50};
constexpr unsigned many_wakes = 8;
constexpr milliseconds longest_pause{200};

milliseconds pause_after(unsigned quick_wakes) {
  if (quick_wakes <= many_wakes) return milliseconds(0);
  const auto doublings = std::min(quick_wakes - many_wakes, 8U);
  return std::min(milliseconds(1U << doublings), longest_pause);
}

WatchRequest request_for(const LockName& lock, const WatchedKeys& watched,
                         std::int64_t from) {
  WatchRequest request;
  request.key = queue_prefix(lock) + watched.id;
  if (watched.id.empty()) request.range_end = end_of_prefix(request.key);
  request.start_revision = from;
  request.no_put = !watched.puts;
  return request;
}

}  // namespace

asio::awaitable<void> EtcdClaimant::await_turn(Call call) {
  const auto began = Clock::now();
  bool has_failed = false;
  try {
    co_await listen_for_turn(call);
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::interrupted) throw;
    has_failed = true;  // the next request reports the failure
  }
  if (has_failed) watch_.reset();
  quick_wakes_ = Clock::now() - began < hardly_waited ? quick_wakes_ + 1 : 0;
  const auto pause = has_failed ? pause_after_failure : pause_after(quick_wakes_);
  co_await call.within(pause).sleep();
}

// The place in the queue is renewed as often as a held lease.
asio::awaitable<void> EtcdClaimant::listen_for_turn(Call call) {
  const bool is_watching = co_await start_watch(call.wakeup);
  if (!is_watching) co_return;
  const auto every = claim().ttl / 3;
  auto renewed = lasts_from_.value_or(Clock::now());
  while (!call.is_over()) {
    const auto next = later(renewed, every);
    const auto update = co_await watch_->next(call.by(next));
    if (update.kind == WatchUpdate::Kind::broken ||
        update.kind == WatchUpdate::Kind::compacted) {
      watch_.reset();
      co_return;
    }
    if (update.kind == WatchUpdate::Kind::events) co_return;
    if (Clock::now() < next) {
      if (call.wakeup.gives_up()) co_return;
      continue;
    }
    renewed = Clock::now();
    LeaseKeepAliveRequest request{lease_};
    const auto alive =
        co_await calls_.lease_keep_alive(request, calls_.new_call(call.wakeup));
    if (alive.ttl == 0) co_return;  // the place is lost as well
  }
}

// Starts the watch at the revision of the last snapshot. False if the lock has to be read
// again first.
asio::awaitable<bool> EtcdClaimant::start_watch(Wakeup& wakeup) {
  const auto* own = waits_in_ ? entry_of(*waits_in_, id()) : nullptr;
  if (own == nullptr) co_return false;
  const auto wanted = watched_by(*waits_in_, *own);
  if (watch_ && !watch_->is_broken() && wanted == watched_) co_return true;
  watched_ = wanted;
  watch_ = std::make_unique<KeyWatch>(calls_);
  std::vector<WatchRequest> requests{
      request_for(claim().lock, wanted, waits_in_->revision + 1)};
  co_await watch_->start(std::move(requests), calls_.new_call(wakeup));
  co_return true;
}

}  // namespace dlock::etcd
