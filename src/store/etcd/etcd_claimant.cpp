#include "store/etcd/etcd_claimant.hpp"

#include <utility>

#include "store/etcd/etcd_entry.hpp"

namespace dlock::etcd {

EtcdClaimant::EtcdClaimant(EtcdCalls& calls, const Claim& claim)
    : Claimant(claim), calls_(calls), day_lease_(calls, claim.lock.name_space) {}

EtcdClaimant::~EtcdClaimant() = default;

// The id of a detached lease follows from the token alone. An attached claim uses a new
// id after each release, so that a late request cannot affect the new lease.
std::string EtcdClaimant::id() const {
  return id_of(number_for(claim().token, claim().attached ? times_ : 0));
}

StepContext EtcdClaimant::step_context() const {
  return {claim().lock, wall_now(), day_lease_.id()};
}

QueueEntry EtcdClaimant::fresh_entry() const {
  auto entry = entry_for(claim(), wall_now());
  entry.id = id();
  entry.lease = lease_;
  entry.ttl = seconds_for(claim());
  return entry;
}

asio::awaitable<Answer> EtcdClaimant::ask(Queue queue, Wakeup& wakeup) {
  if (final_answer_) co_return *final_answer_;
  waits_in_.reset();
  CallContext call{calls_.new_call(wakeup), queue};
  auto answer = co_await begin(call);
  while (!answer) answer = co_await proceed(call);
  co_return std::move(*answer);
}

// Each request may be repeated: the second has no effect, and finds what the first has
// written. A request with a revoked lease has no effect however late it arrives.
asio::awaitable<TxnResult> EtcdClaimant::write(TxnRequest request, CallContext& call) {
  auto result = co_await calls_.txn(request, Repeat::freely, call);
  if (!result.lease_gone) co_return result;
  // Another process may have set up the lease of the day in between.
  co_await day_lease_.set_up(call);
  result = co_await calls_.txn(std::move(request), Repeat::freely, call);
  if (result.lease_gone) forget_lease();
  co_return result;
}

asio::awaitable<void> EtcdClaimant::count(CallContext& call) {
  auto request = count_refused(step_context());
  co_await write(std::move(request), call);
}

// Updates own_ from the snapshot.
void EtcdClaimant::adopt(const LockSnapshot& snapshot) {
  const auto* entry = entry_of(snapshot, id());
  saw_readers_ =
      std::any_of(snapshot.entries.begin(), snapshot.entries.end(),
                  [](const QueueEntry& one) { return one.mode == Mode::shared; });
  own_.reset();
  if (entry == nullptr || entry->foreign) return;
  own_ = *entry;
  change_lease(entry->lease);
}

// The answer if that is decided; otherwise `call` contains the snapshot.
asio::awaitable<std::optional<Answer>> EtcdClaimant::begin(CallContext& call) {
  if (own_ && !own_->holds()) co_return co_await ask_as_waiter(call);
  // A claim that does not wait must write nothing while the lock is held.
  const bool is_to_enter = call.queue == Queue::join && !own_ && lease_ == 0;
  if (is_to_enter) {
    co_await glance_with_lease(call);
  } else {
    co_await glance(call);
  }
  co_return std::nullopt;
}

// Renews the lease first. If no other entry matters, a waiter that is first in the queue
// takes the lock with the same request.
asio::awaitable<std::optional<Answer>> EtcdClaimant::ask_as_waiter(CallContext& call) {
  const bool is_plain = !saw_readers_ && claim().mode == Mode::exclusive &&
                        claim().slots == 1 && !claim().dedupe;
  auto own = *own_;
  own.standing = Standing::holds;
  own.since = wall_now();
  std::vector<Request> requests;
  requests.emplace_back(LeaseKeepAliveRequest{lease_});
  requests.emplace_back(is_plain ? enter_first(step_context(), own)
                                 : written_look_at(claim().lock));
  const auto sent_at = Clock::now();
  const auto results =
      co_await calls_.together(std::move(requests), Repeat::freely, call);
  const auto& alive = std::get<LeaseKeepAliveResult>(results.at(0));
  const auto& result = std::get<TxnResult>(results.at(1));
  if (alive.ttl == 0 && !alive.is_unanswered) forget_lease();
  if (alive.ttl == 0 || result.lease_gone) {
    // The missing lease must be that of the day if our own is alive.
    if (result.lease_gone && lease_ != 0) co_await day_lease_.set_up(call);
    if (alive.is_unanswered) co_await extend(call);
    co_await look(call);
    co_return std::nullopt;
  }
  // Otherwise the lease is renewed again before anything is granted: see extend().
  const bool is_confirmed = is_renewed_by(alive, result);
  if (is_confirmed) lasts_from_ = sent_at;
  const bool has_entered = is_plain && result.succeeded;
  call.snapshot = snapshot_from(claim().lock, result, has_entered ? 2 : 0);
  if (!has_entered || !is_confirmed) co_return std::nullopt;
  const auto taken_by = replacer(call.snapshot, own.id);
  auto answer = co_await entered(std::move(own), result, taken_by, call);
  co_return std::optional<Answer>(std::move(answer));
}

// Performs the next step by the current snapshot; returns the answer if that was the
// last.
asio::awaitable<std::optional<Answer>> EtcdClaimant::proceed(CallContext& call) {
  adopt(call.snapshot);
  const auto decision = decide(call.snapshot, claim(), id(), call.queue, wall_now());
  switch (decision.kind) {
    case Decision::Kind::answer: {
      auto answer = co_await leave_with(decision, call);
      co_return std::optional<Answer>(std::move(answer));
    }
    case Decision::Kind::held: co_return co_await resume_holding(call);
    case Decision::Kind::enter: co_return co_await enter_as(decision, call);
    case Decision::Kind::join: co_await join_as(decision, call); break;
    case Decision::Kind::wait: co_return co_await wait_as(decision, call);
  }
  co_return std::nullopt;
}

asio::awaitable<std::optional<Answer>> EtcdClaimant::enter_as(const Decision& decision,
                                                              CallContext& call) {
  co_await have_lease(call);
  auto own = own_ ? *own_ : fresh_entry();
  own.standing = Standing::holds;
  own.since = wall_now();
  own.slot = decision.slot;
  const auto snapshot = call.snapshot;
  auto request = enter(step_context(), snapshot, claim(), own, decision);
  const auto result = co_await write(std::move(request), call);
  if (result.lease_gone) {
    co_await look(call);
    co_return std::nullopt;
  }
  if (!result.succeeded) {
    call.snapshot = snapshot_from(claim().lock, result);
    co_return std::nullopt;
  }
  auto answer = co_await entered(std::move(own), result, decision.taken_by, call);
  co_return std::optional<Answer>(std::move(answer));
}

// The snapshot afterwards shows whether the claim waits.
asio::awaitable<void> EtcdClaimant::join_as(const Decision& decision, CallContext& call) {
  // Otherwise it would need another lease when it is its turn, and that would be later.
  if (lease_ != 0 && lease_term_ == 0 && calls_.knows_term()) {
    co_await replace_lease(call);
  }
  co_await have_lease(call);
  const auto own = fresh_entry();
  auto request = join(step_context(), call.snapshot, claim(), own, decision);
  const auto result = co_await write(std::move(request), call);
  if (result.lease_gone) {
    co_await look(call);
    co_return;
  }
  const auto first = result.succeeded ? result.results.size() - 2 : 0;
  call.snapshot = snapshot_from(claim().lock, result, first);
}

asio::awaitable<std::optional<Answer>> EtcdClaimant::wait_as(const Decision& decision,
                                                             CallContext& call) {
  if (!decision.lose.empty()) {
    auto request = take_away(step_context(), decision.lose, own_taker(true));
    const auto result = co_await write(std::move(request), call);
    if (result.lease_gone) {
      co_await look(call);
      co_return std::nullopt;
    }
    const auto first = result.succeeded ? result.results.size() - 2 : 0;
    call.snapshot = snapshot_from(claim().lock, result, first);
    co_return std::nullopt;
  }
  if (decision.counts_as_refused) co_await count(call);
  waits_in_ = std::move(call.snapshot);
  co_return decision.answer;
}

// A claim that does not get the lock removes its entry.
asio::awaitable<Answer> EtcdClaimant::leave_with(const Decision& decision,
                                                 CallContext& call) {
  const auto& answer = *decision.answer;
  if (decision.counts_as_refused) co_await count(call);
  // The reason could not be found again later.
  if (std::holds_alternative<Deduplicated>(answer) ||
      std::holds_alternative<Superseded>(answer)) {
    if (own_ || std::holds_alternative<Superseded>(answer)) final_answer_ = answer;
  }
  own_.reset();
  forget_lease();
  ++times_;
  co_await revoke_former_leases(call);
  co_return answer;
}

// The claim already has the lock: by a grant whose reply was lost, or it asks again.
asio::awaitable<std::optional<Answer>> EtcdClaimant::resume_holding(CallContext& call) {
  std::optional<QueueEntry> entry;
  if (own_->attached || own_->ttl == seconds_for(claim())) {
    entry = co_await extend(call);
  } else {
    entry = co_await move_to_new_lease(*own_, call);
  }
  // The snapshot may have been older.
  if (!entry || !entry->holds() || entry->standing == Standing::ended) {
    co_await look(call);
    co_return std::nullopt;
  }
  own_ = *entry;
  taken_by_ = entry->taken_by;
  if (granted_at_ == Clock::time_point{}) granted_at_ = *lasts_from_;
  Grant grant;
  grant.fence = entry->fence();
  grant.slot = entry->slot;
  grant.sent_at = *lasts_from_;
  grant.deadline = LeaseTiming(claim().ttl, {}, {}).deadline(grant.sent_at);
  grant.broken = entry->standing == Standing::broken;
  co_return std::optional<Answer>(grant);
}

// Our entry now holds the lock. If a waiter with --replace takes it from the next holder,
// that has already been done.
asio::awaitable<Answer> EtcdClaimant::entered(QueueEntry own, const TxnResult& result,
                                              const std::optional<Taker>& taken_by,
                                              CallContext& call) {
  own.modified = result.revision;
  if (own.created == 0) own.created = result.revision;
  granted_at_ = *lasts_from_;
  own_ = own;
  Grant grant;
  grant.fence = own.fence();
  grant.slot = own.slot;
  grant.sent_at = *lasts_from_;
  grant.deadline = LeaseTiming(claim().ttl, {}, {}).deadline(grant.sent_at);
  if (taken_by && claim().attached) {
    own.standing = Standing::broken;
    own.taken_by = taken_by;
    auto request = rewrite(step_context(), own);
    const auto marked = co_await write(std::move(request), call);
    if (marked.succeeded) own.modified = marked.revision;
    own_ = own;
    taken_by_ = own.taken_by;
    grant.broken = true;
  }
  co_return grant;
}

asio::awaitable<void> EtcdClaimant::look(CallContext& call) {
  auto request = look_at(claim().lock);
  const auto result = co_await calls_.txn(std::move(request), Repeat::freely, call);
  call.snapshot = snapshot_from(claim().lock, result);
}

// Reads the records of runs only where they can matter.
TxnRequest EtcdClaimant::first_look() const {
  const bool goes_by_runs = claim().dedupe || claim().supersedes;
  return goes_by_runs ? look_at(claim().lock) : glance_at(claim().lock);
}

// A glance does not contain the runs against which waiters are deduplicated.
asio::awaitable<void> EtcdClaimant::take_first_look(const TxnResult& result,
                                                    CallContext& call) {
  call.snapshot = snapshot_from(claim().lock, result);
  const auto& entries = call.snapshot.entries;
  const bool is_glance = result.results.size() == 1;
  const bool needs_runs =
      is_glance && std::any_of(entries.begin(), entries.end(),
                               [](const QueueEntry& e) { return e.dedupe.has_value(); });
  if (needs_runs) co_await look(call);
}

asio::awaitable<void> EtcdClaimant::glance(CallContext& call) {
  auto request = first_look();
  const auto result = co_await calls_.txn(std::move(request), Repeat::freely, call);
  co_await take_first_look(result, call);
}

// Reads the lock while the lease is granted that most new claims need next: the grant
// waits for the cluster's disks, and the read costs no extra time. The entry itself must
// not be sent before its lease is granted: etcd would often refuse it, and if both
// arrived after the claim was abandoned, they would hold the lock without a holder.
asio::awaitable<void> EtcdClaimant::glance_with_lease(CallContext& call) {
  const auto seconds = seconds_for(claim());
  std::vector<Request> requests;
  requests.emplace_back(LeaseGrantRequest{0, seconds});
  requests.emplace_back(first_look());
  const auto sent_at = Clock::now();
  const auto results =
      co_await calls_.together(std::move(requests), Repeat::freely, call);
  use(new_lease(std::get<LeaseGrantResult>(results.at(0)), seconds, sent_at));
  co_await take_first_look(std::get<TxnResult>(results.at(1)), call);
}

}  // namespace dlock::etcd
