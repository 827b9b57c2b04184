#include "store/etcd/etcd_claimant.hpp"

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "lock/lease.hpp"
#include "rules/keeping.hpp"
#include "rules/look.hpp"
#include "store/etcd/etcd_entry.hpp"
#include "store/etcd/etcd_lease.hpp"
#include "store/etcd/etcd_queue.hpp"
#include "store/etcd/etcd_steps.hpp"

namespace dlock::etcd {
namespace {

// The part of its ttl that a lease may have used up before a claim takes the lock with
// it.
constexpr int may_have_lost = 10;

Failure bad_grant(const std::string& how) {
  return Failure::unreachable("etcd granted a lease " + how);
}

// The pause before the next attempt if the watch fails.
constexpr milliseconds pause_after_failure{300};

WatchRequest request_for(const LockName& lock, const WatchedKeys& watched,
                         std::int64_t from) {
  WatchRequest request;
  request.key = queue_prefix(lock) + watched.id;
  if (watched.id.empty()) request.range_end = end_of_prefix(request.key);
  request.start_revision = from;
  request.no_put = !watched.puts;
  return request;
}

// How long an interrupted release may still take.
constexpr milliseconds last_patience{80};

// The number of keys of runs from which on a release checks whether any can be deleted:
// those that to_forget() keeps, and the few keys that are not runs.
constexpr std::int64_t few_runs = 33;

bool has_ended(const LockSnapshot& snapshot, Fence fence) {
  return std::ranges::any_of(snapshot.runs.past, [&](const PastRun& run) {
    return run.info.fence == fence && !forced_by(run.info);
  });
}

class EtcdClaimant final : public Claimant {
 public:
  // `calls` must outlive this.
  EtcdClaimant(EtcdCalls& calls, const Claim& claim)
      : Claimant(claim), calls_(calls), day_lease_(calls, claim.lock.name_space) {}

  bool queues_at_once() const override { return true; }
  asio::awaitable<Answer> ask(Queue queue, Wakeup& wakeup) override {
    if (final_answer_) co_return *final_answer_;
    waits_in_.reset();
    CallContext call{calls_.new_call(wakeup), queue};
    auto answer = co_await begin(call);
    while (!answer) answer = co_await proceed(call);
    co_return std::move(*answer);
  }

  asio::awaitable<void> await_turn(Call call) override {
    bool has_failed = false;
    try {
      co_await listen_for_turn(call);
    } catch (const Failure& failure) {
      if (failure.kind() == Failure::Kind::interrupted) throw;
      has_failed = true;  // the next request reports the failure
    }
    if (has_failed) watch_.reset();
    const auto pause = has_failed ? pause_after_failure : restraint_.pause(Clock::now());
    co_await call.within(pause).sleep();
  }

  asio::awaitable<Release> release(const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override {
    watch_.reset();
    waits_in_.reset();
    final_answer_.reset();
    // Another client may have obtained the detached lease.
    const bool has_lease = lease_ != 0 || !former_leases_.empty();
    if (!own_ && !has_lease && claim().attached) co_return Release::not_ours;
    const auto answer = co_await give_back(end, wakeup);
    const bool is_left = end && end->leaves_lease && answer == Release::released;
    co_return is_left ? Release::left : answer;
  }

  asio::awaitable<Renewal> renew(Wakeup& wakeup) override {
    CallContext call{calls_.new_call(wakeup)};
    if (!claim().attached) co_return co_await renew_detached(call);
    const auto entry = co_await extend(call);
    const bool is_own =
        entry && own_ && entry->created == own_->created && entry->holds();
    if (!is_own) co_return co_await found_lost(call);
    own_ = *entry;
    taken_by_ = entry->taken_by;
    co_return entry->standing == Standing::broken ? Renewal::broken : Renewal::confirmed;
  }

  std::optional<Taker> taken_by() const override { return taken_by_; }
  std::unique_ptr<LeaseNews> listen(std::function<void()> on_news) override {
    if (!claim().attached || !own_) return nullptr;  // those are not notified
    return news_of(calls_, queue_prefix(claim().lock) + id(), own_->modified,
                   std::move(on_news));
  }

 private:
  // Shared by the steps of one call.
  struct CallContext : Call {
    Queue queue = Queue::stay_out;
    LockSnapshot snapshot = {};  // as last read
  };

  // When it was requested, and the term in which it was granted.
  struct NewLease {
    Clock::time_point sent_at;
    std::int64_t id = 0;
    std::uint64_t term = 0;
  };

  // --- From the first read to the answer ---

  // The answer if that is decided; otherwise `call` contains the snapshot.
  asio::awaitable<std::optional<Answer>> begin(CallContext& call) {
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

  // Renews the lease first. If no other entry matters, a waiter that is first in the
  // queue takes the lock with the same request.
  asio::awaitable<std::optional<Answer>> ask_as_waiter(CallContext& call) {
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
    const auto results = co_await calls_.together(std::move(requests), call);
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
  asio::awaitable<std::optional<Answer>> proceed(CallContext& call) {
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

  asio::awaitable<std::optional<Answer>> enter_as(const Decision& decision,
                                                  CallContext& call) {
    co_await have_lease(call);
    auto own = own_ ? *own_ : fresh_entry();
    own.standing = Standing::holds;
    own.since = wall_now();
    own.slot = decision.slot;
    own.given_fence = decision.given_fence;
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
  asio::awaitable<void> join_as(const Decision& decision, CallContext& call) {
    // Otherwise it would need another lease when it is its turn, and that would be later.
    if (lease_ != 0 && lease_term_ == 0 && calls_.knows_term()) {
      co_await replace_lease(call);
    }
    co_await have_lease(call);
    const auto own = fresh_entry();
    auto request = join(step_context(), call.snapshot, claim(), own, decision);
    co_await write_and_look(std::move(request), call);
  }

  asio::awaitable<std::optional<Answer>> wait_as(const Decision& decision,
                                                 CallContext& call) {
    if (!decision.lose.empty()) {
      auto request = take_away(step_context(), decision.lose, own_taker(true));
      co_await write_and_look(std::move(request), call);
      co_return std::nullopt;
    }
    if (decision.counts_as_refused) co_await count(call);
    waits_in_ = std::move(call.snapshot);
    co_return decision.answer;
  }

  // A claim that does not get the lock removes its entry.
  asio::awaitable<Answer> leave_with(const Decision& decision, CallContext& call) {
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
  asio::awaitable<std::optional<Answer>> resume_holding(CallContext& call) {
    const auto entry = co_await prolong(call);
    // The snapshot may have been older.
    if (!entry || !entry->holds() || entry->standing == Standing::ended) {
      co_await look(call);
      co_return std::nullopt;
    }
    own_ = *entry;
    taken_by_ = entry->taken_by;
    if (granted_at_ == Clock::time_point{}) granted_at_ = *lasts_from_;
    co_return std::optional<Answer>(grant_of(*entry));
  }

  // Our entry now holds the lock. If a waiter with --replace takes it from the next
  // holder, that has already been done.
  asio::awaitable<Answer> entered(QueueEntry own, const TxnResult& result,
                                  const std::optional<Taker>& taken_by,
                                  CallContext& call) {
    own.modified = result.revision;
    if (own.created == 0) own.created = result.revision;
    granted_at_ = *lasts_from_;
    own_ = own;
    auto grant = grant_of(own);
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

  // `entry` holds the lock with the lease that lasts_from_ is about.
  Grant grant_of(const QueueEntry& entry) const {
    Grant grant;
    grant.fence = entry.fence();
    grant.slot = entry.slot;
    grant.sent_at = *lasts_from_;
    grant.deadline = LeaseTiming(claim().ttl, {}, {}).deadline(grant.sent_at);
    grant.broken = entry.standing == Standing::broken;
    return grant;
  }

  // Each request may be repeated: the second has no effect, and finds what the first has
  // written. A request with a revoked lease has no effect however late it arrives.
  asio::awaitable<TxnResult> write(TxnRequest request, CallContext& call) {
    auto result = co_await calls_.txn(request, call);
    if (!result.lease_gone) co_return result;
    // Another process may have set up the lease of the day in between.
    co_await day_lease_.set_up(call);
    result = co_await calls_.txn(std::move(request), call);
    if (result.lease_gone) forget_lease();
    co_return result;
  }

  // The snapshot is then the lock as the last two results show it, whether or not the
  // request has had an effect.
  asio::awaitable<TxnResult> write_and_look(TxnRequest request, CallContext& call) {
    auto result = co_await write(std::move(request), call);
    if (result.lease_gone) {
      co_await look(call);
    } else {
      const auto first = result.succeeded ? result.results.size() - 2 : 0;
      call.snapshot = snapshot_from(claim().lock, result, first);
    }
    co_return result;
  }

  asio::awaitable<void> count(CallContext& call) {
    auto request = count_refused(step_context());
    co_await write(std::move(request), call);
  }

  // Updates own_ from the snapshot.
  void adopt(const LockSnapshot& snapshot) {
    const auto* entry = entry_of(snapshot, id());
    saw_readers_ = std::ranges::any_of(
        snapshot.entries, [](const QueueEntry& one) { return one.mode == Mode::shared; });
    own_.reset();
    if (entry == nullptr || entry->foreign) return;
    own_ = *entry;
    change_lease(entry->lease);
  }

  // --- What it reads before it decides ---

  asio::awaitable<void> look(CallContext& call) {
    auto request = look_at(claim().lock);
    const auto result = co_await calls_.txn(std::move(request), call);
    call.snapshot = snapshot_from(claim().lock, result);
  }

  asio::awaitable<void> glance(CallContext& call) {
    auto request = first_look();
    const auto result = co_await calls_.txn(std::move(request), call);
    co_await take_first_look(result, call);
  }

  // Reads the lock while the lease is granted that most new claims need next: the grant
  // waits for the cluster's disks, and the read costs no extra time. The entry itself
  // must not be sent before its lease is granted: etcd would often refuse it, and if both
  // arrived after the claim was abandoned, they would hold the lock without a holder.
  asio::awaitable<void> glance_with_lease(CallContext& call) {
    const auto seconds = seconds_for(claim());
    std::vector<Request> requests;
    requests.emplace_back(LeaseGrantRequest{0, seconds});
    requests.emplace_back(first_look());
    const auto sent_at = Clock::now();
    const auto results = co_await calls_.together(std::move(requests), call);
    use(new_lease(std::get<LeaseGrantResult>(results.at(0)), seconds, sent_at));
    co_await take_first_look(std::get<TxnResult>(results.at(1)), call);
  }

  // Reads the records of runs only where they can matter.
  TxnRequest first_look() const {
    const bool goes_by_runs = claim().dedupe || claim().supersedes;
    return goes_by_runs ? look_at(claim().lock) : glance_at(claim().lock);
  }

  // A glance does not contain the runs against which waiters are deduplicated, nor those
  // that have passed this one.
  asio::awaitable<void> take_first_look(const TxnResult& result, CallContext& call) {
    call.snapshot = snapshot_from(claim().lock, result);
    const auto& entries = call.snapshot.entries;
    const bool is_glance = result.results.size() == 1;
    const bool needs_runs =
        is_glance && std::ranges::any_of(entries, [&](const QueueEntry& e) {
          return e.dedupe || (e.id == id() && !e.holds());
        });
    if (needs_runs) co_await look(call);
  }

  // --- The lease to which the entry is attached ---

  // Obtains or renews the lease, so that it counts from now.
  asio::awaitable<void> have_lease(CallContext& call) {
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

  // For one to which nothing is attached yet.
  asio::awaitable<void> replace_lease(CallContext& call) {
    const auto former = lease_;
    forget_lease();
    const auto seconds = seconds_for(claim());
    std::vector<Request> requests;
    requests.emplace_back(LeaseRevokeRequest{former});
    requests.emplace_back(LeaseGrantRequest{0, seconds});
    const auto sent_at = Clock::now();
    const auto results = co_await calls_.together(std::move(requests), call);
    former_leases_.erase(former);
    use(new_lease(std::get<LeaseGrantResult>(results.at(1)), seconds, sent_at));
  }

  // The cluster chooses the id, another one for each repetition of the request: one that
  // arrives late does not bring back the lease of an earlier one, which may be revoked.
  static NewLease new_lease(const LeaseGrantResult& granted, std::int64_t seconds,
                            Clock::time_point sent_at) {
    if (granted.id == 0) throw bad_grant("without an id");
    if (granted.ttl < seconds) {
      throw bad_grant("of " + std::to_string(granted.ttl) + " s, less than requested");
    }
    return {sent_at, granted.id, granted.term};
  }

  asio::awaitable<NewLease> grant_lease(std::int64_t seconds, CallContext& call) {
    LeaseGrantRequest request;
    request.ttl = seconds;
    const auto sent_at = Clock::now();
    const auto granted = co_await calls_.lease_grant(request, call);
    co_return new_lease(granted, seconds, sent_at);
  }

  // Whether the lease surely lasts its full time from when both were sent.
  //
  // A former leader that does not know yet that it was replaced (it was stopped, for
  // example) may still report a renewal as successful (etcd issue 15247). A write is in
  // the log only once a majority of the members has it; if it has the same term, no other
  // leader was elected before both were sent. A read does not show that: some versions
  // answer it from old data after such a stop (etcd issue 20418).
  //
  // When a former leader continues, it may also revoke the leases that it granted or
  // renewed, although the next leader has renewed them since, and no write of ours
  // prevents that. The lease must therefore also be granted in this term. Of the first
  // lease of a claim that waits, that is not known: it is asked for with the first
  // request.
  bool is_renewed_by(const LeaseKeepAliveResult& alive, const TxnResult& written) const {
    return covers(alive.ttl, claim()) && written.term != 0 &&
           alive.term == written.term && lease_term_ == written.term;
  }

  // Renews the lease and reads its entry; nothing if either no longer exists.
  //
  // If a keep-alive does not surely renew it, the entry is attached to a new lease, which
  // needs nothing but writes: after a change of the leader, whose predecessor does not
  // know the new lease, and behind a proxy that answers no keep-alive or hides the terms.
  // A former leader sees the lease end a full ttl after it renewed it. By then the entry
  // has the new one, or our deadline has passed.
  asio::awaitable<std::optional<QueueEntry>> extend(Call within) {
    constexpr int tries = 5;
    CallContext call{within};
    for (int i = 0; i < tries; ++i) {
      std::vector<Request> requests;
      requests.emplace_back(LeaseKeepAliveRequest{lease_});
      requests.emplace_back(written_look_at_own(claim().lock, id()));
      const auto sent_at = Clock::now();
      const auto results = co_await calls_.together(std::move(requests), call);
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
    throw Failure::unreachable("the entry changed during each renewal");
  }

  // The lease of the entry that holds, for as long as the claim wants it. Nothing if the
  // entry has changed.
  asio::awaitable<std::optional<QueueEntry>> prolong(CallContext& call) {
    const bool lasts = own_->attached || own_->ttl == seconds_for(claim());
    return lasts ? extend(call) : move_to_new_lease(*own_, call);
  }

  // For another duration, which etcd cannot change, or because a keep-alive is not
  // enough. Nothing if the entry has changed.
  asio::awaitable<std::optional<QueueEntry>> move_to_new_lease(const QueueEntry& entry,
                                                               CallContext& call) {
    auto moved = entry;
    moved.ttl = seconds_for(claim());
    if (moved.ttl != entry.ttl && entry.acquired_ttl == 0) moved.acquired_ttl = entry.ttl;
    const auto fresh = co_await grant_lease(moved.ttl, call);
    moved.lease = fresh.id;
    auto step = rewrite(step_context(), moved);
    const auto result = co_await write(std::move(step), call);
    auto done = written_by(result, std::move(moved), call);
    if (!done) co_return std::nullopt;
    change_lease(entry.lease);
    use(fresh);
    co_await revoke_former_leases(call);
    co_return done;
  }

  // Any client that knows the token may renew, so the lease is looked up in the store.
  asio::awaitable<Renewal> renew_detached(CallContext& call) {
    co_await look(call);
    adopt(call.snapshot);
    std::optional<QueueEntry> entry;
    if (own_ && claim().keeps_ttl) {
      const auto ttl = own_->acquired_ttl != 0 ? own_->acquired_ttl : own_->ttl;
      if (ttl > 0) keep_ttl(std::chrono::seconds(ttl));
    }
    if (own_ && own_->standing == Standing::holds && !own_->attached) {
      entry = co_await prolong(call);
    }
    // The first look may have been at an older state.
    if (entry && entry->standing == Standing::holds && !entry->attached) {
      own_ = *entry;
      co_return Renewal::confirmed;
    }
    co_return co_await found_lost(call);
  }

  // The entry on its new lease, after the step that was to write it. That also has no
  // effect if it was done before and the reply was lost. Nothing if the entry has
  // changed.
  std::optional<QueueEntry> written_by(const TxnResult& result, QueueEntry entry,
                                       CallContext& call) {
    if (result.succeeded) {
      if (entry.modified == 0) entry.created = result.revision;
      entry.modified = result.revision;
      return entry;
    }
    if (!result.lease_gone) {
      call.snapshot = snapshot_from(claim().lock, result);
      const auto* there = entry_of(call.snapshot, id());
      if (there != nullptr && !there->foreign && there->lease == entry.lease)
        return *there;
    }
    former_leases_.insert(entry.lease);
    return std::nullopt;
  }

  asio::awaitable<Renewal> found_lost(CallContext& call) {
    co_await look(call);
    if (own_ && claim().attached) {
      if (auto taker = rules::forced_by(state_of(call.snapshot), own_->fence())) {
        taken_by_ = std::move(taker);
        co_return Renewal::broken;
      }
      const bool is_back = claim().reclaim && co_await set_up_again(call);
      if (is_back) co_return Renewal::reclaimed;
    }
    const auto state = state_of(call.snapshot, id());
    const bool is_taken = std::ranges::any_of(state.holders, [&](const auto& holder) {
      return holder.mode == Mode::exclusive && holder.party.token != token_of(id()) &&
             (state.slots == 1 || holder.party.foreign);
    });
    co_return is_taken ? Renewal::taken_over : Renewal::gone;
  }

  // Sets up the vanished lease again, if the lock was not granted to another claim since.
  asio::awaitable<bool> set_up_again(CallContext& call) {
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
    own.given_fence = own.fence();
    own.modified = 0;
    const auto fresh = co_await grant_lease(own.ttl, call);
    own.lease = fresh.id;
    const auto snapshot = call.snapshot;
    auto step = etcd::set_up_again(step_context(), snapshot, own);
    const auto result = co_await write(std::move(step), call);
    auto done = written_by(result, std::move(own), call);
    if (!done) co_return false;
    own_ = std::move(done);
    use(fresh);
    co_return true;
  }

  void use(const NewLease& fresh) {
    change_lease(fresh.id);
    lease_term_ = fresh.term;
    lasts_from_ = fresh.sent_at;
  }

  // What is known of the lease before is not true of this one.
  void change_lease(std::int64_t to) {
    if (lease_ == to) return;
    if (lease_ != 0) former_leases_.insert(lease_);
    former_leases_.erase(to);
    lease_ = to;
    lease_term_ = 0;
    lasts_from_.reset();
  }

  void forget_lease() { change_lease(0); }
  // Revoking a lease deletes its keys and voids requests that arrive late; otherwise a
  // request with a former lease could still set up an entry. Only after a write has shown
  // that the entry has another lease or none: a read can be older than a move. What
  // cannot be revoked now is tried again at the next renewal or release, and expires by
  // itself: this returns why.
  asio::awaitable<std::optional<Failure>> revoke_former_leases(CallContext& call) {
    std::optional<Failure> failure;
    if (former_leases_.empty()) co_return failure;
    std::vector<Request> requests;
    for (const auto lease : former_leases_) {
      requests.emplace_back(LeaseRevokeRequest{lease});
    }
    try {
      co_await calls_.together(std::move(requests), call);
      former_leases_.clear();
    } catch (const Failure& error) {
      failure = error;
    }
    co_return failure;
  }

  // --- The end of the lease ---

  asio::awaitable<Release> give_back(const std::optional<RunEnd>& end, Wakeup& wakeup) {
    // Not `wakeup`, which may be interrupted: the lease is released nevertheless, within
    // a short time.
    Wakeup own(calls_.context());
    CallContext call{{wakeup.last_request_until(calls_.timeout(), last_patience), own}};
    // No entry depends on a lease that was never confirmed. If it was granted all the
    // same, it expires when it cannot be revoked: not worth a second timeout.
    if (!own_ && !lasts_from_ && claim().attached) {
      call.until = later(Clock::now(), std::min(calls_.timeout(), last_patience));
      const bool may_come_late = !former_leases_.empty();
      forget_lease();
      ++times_;
      const auto unrevoked = co_await revoke_former_leases(call);
      if (unrevoked && may_come_late) throw *unrevoked;
      co_return Release::not_ours;
    }
    // A waiter may have been granted the lock since, and the state of a detached lease is
    // unknown.
    if (!own_ || !claim().attached) {
      co_await look(call);
      const auto known = own_;
      adopt(call.snapshot);
      if (!own_ && known && claim().attached) own_ = known;
    }
    std::optional<Release> answer;
    std::optional<Failure> failure;
    try {
      while (!answer) answer = co_await end_lease(end, call);
    } catch (const Failure& error) {
      failure = error;  // co_await is not allowed in here
    }
    if (failure) {
      const bool was_held = co_await free_unrecorded(end, call);
      if (!was_held) throw *failure;
      answer = Release::released;
    }
    if (loss_found_by(*answer)) co_return *answer;  // and to be released again
    const bool is_left = end && end->leaves_lease && *answer == Release::released;
    // A lock that stays held depends on the lease it was given.
    const bool is_kept = own_ && own_->standing == Standing::ended;
    const auto left = is_left || is_kept ? lease_ : 0;
    own_.reset();
    forget_lease();
    former_leases_.erase(left);
    ++times_;
    const auto unrevoked = co_await revoke_former_leases(call);
    // A request that is still on its way could set up an entry with one of them.
    const bool held_nothing = *answer == Release::not_ours && !end && claim().attached;
    if (unrevoked && held_nothing) throw *unrevoked;
    if (runs_kept_ > few_runs) co_await forget_runs(call);
    co_return *answer;
  }

  // Nothing if the entry has changed.
  asio::awaitable<std::optional<Release>> end_lease(const std::optional<RunEnd>& end,
                                                    CallContext& call) {
    if (!own_ || own_->standing == Standing::ended) {
      co_return co_await end_without(end, call);
    }
    const bool is_broken = own_->standing == Standing::broken;
    if (is_broken && end && !end->lost) {
      taken_by_ = own_->taken_by;
      co_return Release::broken;
    }
    Ending ending;
    if (own_->holds()) ending.end = end;
    ending.kept_on = co_await lease_to_keep_on(end, call);
    auto request = etcd::give_back(step_context(), *own_, ending);
    const auto result = co_await write(std::move(request), call);
    if (result.succeeded) {
      runs_kept_ = runs_kept_after(result);
      co_return own_->holds() ? Release::released : Release::not_ours;
    }
    if (result.lease_gone) {
      co_await look(call);
    } else {
      call.snapshot = snapshot_from(claim().lock, result);
    }
    const auto known = *own_;
    adopt(call.snapshot);
    // Only the same claim can have an entry with this id again.
    const bool is_same = own_ && own_->created == known.created;
    if (is_same) co_return std::nullopt;
    own_ = known;
    co_return co_await end_without(end, call);
  }

  // A cluster whose database is full refuses writes, but revokes leases. False if that
  // did not free the lock, or the lock has to stay held.
  asio::awaitable<bool> free_unrecorded(const std::optional<RunEnd>& end,
                                        CallContext& call) {
    const bool is_wanted = own_ && own_->standing == Standing::holds && lease_ != 0 &&
                           claim().min_hold == milliseconds(0);
    if (!is_wanted || (end && end->leaves_lease)) co_return false;
    try {
      // It may have been broken since, which has to be reported.
      co_await look(call);
      const auto* entry = entry_of(call.snapshot, id());
      const bool is_unbroken = entry != nullptr && entry->standing == Standing::holds;
      if (!is_unbroken && end && !end->lost) co_return false;
      LeaseRevokeRequest request{lease_};
      const auto revoked = co_await calls_.lease_revoke(request, call);
      co_return revoked.was_there;
    } catch (const Failure&) {
      co_return false;
    }
  }

  // There is no entry to release, or it no longer has an owner.
  asio::awaitable<Release> end_without(const std::optional<RunEnd>& end,
                                       CallContext& call) {
    const bool had_it = own_ && own_->holds();
    if (!had_it || !end) co_return Release::not_ours;
    if (has_ended(call.snapshot, own_->fence()))
      co_return Release::released;  // recorded by an earlier attempt
    if (!end->lost) {
      const auto renewal = co_await found_lost(call);
      if (renewal == Renewal::taken_over) co_return Release::taken_over;
      if (renewal == Renewal::gone) co_return Release::gone;
      if (renewal == Renewal::broken) co_return Release::broken;
      // The lock was not granted to another claim meanwhile.
      Ending ending;
      ending.end = end;
      auto request = etcd::give_back(step_context(), *own_, ending);
      const auto result = co_await write(std::move(request), call);
      co_return result.succeeded ? Release::released : Release::gone;
    }
    auto request = record_lost(step_context(), call.snapshot.runs, *own_, *end);
    co_await write(std::move(request), call);
    co_return Release::not_ours;
  }

  // The lease of a lock that stays held for a while, or until its lease ends; 0 if it
  // becomes free.
  asio::awaitable<std::int64_t> lease_to_keep_on(const std::optional<RunEnd>& end,
                                                 CallContext& call) {
    if (!end || !own_->holds()) co_return 0;
    if (end->leaves_lease) co_return own_->lease;
    const auto left = later(granted_at_, claim().min_hold) - Clock::now();
    if (own_->standing == Standing::broken || left <= nanoseconds(0)) co_return 0;
    const auto seconds = seconds_for(std::chrono::ceil<milliseconds>(left));
    const auto kept = co_await grant_lease(seconds, call);
    co_return kept.id;
  }

  // Best effort.
  asio::awaitable<void> forget_runs(CallContext& call) {
    try {
      co_await look(call);
      auto request =
          forget(to_forget(call.snapshot.runs, call.snapshot.entries, wall_now()));
      if (request.then.empty()) co_return;
      co_await calls_.txn(std::move(request), call);
    } catch (const Failure&) {
      // The next release tries again.
    }
  }

  // --- The watch for its turn ---

  // The place in the queue is renewed as often as a held lease.
  asio::awaitable<void> listen_for_turn(Call call) {
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

  // Starts the watch at the revision of the last snapshot. False if the lock has to be
  // read again first.
  asio::awaitable<bool> start_watch(Wakeup& wakeup) {
    const auto* own = waits_in_ ? entry_of(*waits_in_, id()) : nullptr;
    if (own == nullptr) co_return false;
    const auto wanted = watched_by(*waits_in_, *own);
    if (watch_ && !watch_->is_broken() && wanted == watched_) co_return true;
    watched_ = wanted;
    watch_ = std::make_unique<KeyWatch>(calls_);
    auto request = request_for(claim().lock, wanted, waits_in_->revision + 1);
    co_await watch_->start(std::move(request), calls_.new_call(wakeup));
    co_return true;
  }

  StepContext step_context() const { return {claim().lock, wall_now(), day_lease_.id()}; }

  QueueEntry fresh_entry() const {
    auto entry = entry_for(claim(), wall_now());
    entry.id = id();
    entry.lease = lease_;
    entry.ttl = seconds_for(claim());
    return entry;
  }

  // The id of a detached lease follows from the token alone. An attached claim uses a new
  // id after each release, so that a late request cannot affect the new lease.
  std::string id() const {
    return id_of(number_for(claim().token, claim().attached ? times_ : 0));
  }

  EtcdCalls& calls_;
  DayLease day_lease_;

  unsigned times_ = 0;            // how often it was released
  std::int64_t lease_ = 0;        // 0: none is known
  std::uint64_t lease_term_ = 0;  // in which it was surely granted; 0: not known
  // Leases that were its own before, and may still exist. They are not used again.
  std::set<std::int64_t> former_leases_;
  // When the last confirmed grant or renewal was sent; nothing if none was confirmed.
  std::optional<Clock::time_point> lasts_from_;
  std::optional<QueueEntry> own_;  // in the queue, as far as is known
  // Whether the last snapshot contained a reader: a reader further back may hold the lock
  // together with those in front.
  bool saw_readers_ = true;
  std::optional<Answer>
      final_answer_;  // why it no longer waits; kept until it is released
  std::optional<Taker> taken_by_;
  Clock::time_point granted_at_;
  std::int64_t runs_kept_ = 0;  // recorded runs as of its release

  std::unique_ptr<KeyWatch> watch_;
  Restraint restraint_;
  WatchedKeys watched_;
  std::optional<LockSnapshot> waits_in_;  // as of the decision to wait
};

}  // namespace

std::unique_ptr<Claimant> claimant_of(EtcdCalls& calls, const Claim& claim) {
  return std::make_unique<EtcdClaimant>(calls, claim);
}

}  // namespace dlock::etcd
