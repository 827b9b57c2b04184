#include "store/etcd/etcd_claimant.hpp"

#include <algorithm>
#include <utility>

#include "lock/timing.hpp"
#include "store/etcd/keys.hpp"
#include "store/etcd/lease_time.hpp"

namespace dlock::etcd {

EtcdClaimant::EtcdClaimant(Calls& calls, const Claim& claim)
    : Claimant(claim), calls_(calls), day_lease_(calls, claim.lock.name_space) {}

EtcdClaimant::~EtcdClaimant() = default;

// A detached lease is found by whoever knows the token. An attached one that was given
// back has another name the next time: what still is under way cannot mean the new one.
std::string EtcdClaimant::id() const {
  return id_of(lease_for(claim().token, claim().attached ? times_ : 0));
}

Scene EtcdClaimant::scene() const { return {claim().lock, wall_now(), day_lease_.id()}; }

Entry EtcdClaimant::fresh_entry() const {
  auto entry = entry_for(claim(), wall_now());
  entry.id = id();
  entry.lease = lease_;
  entry.ttl = seconds_for(claim());
  return entry;
}

asio::awaitable<Answer> EtcdClaimant::ask(Queue queue, Wakeup& wakeup) {
  if (told_) co_return *told_;
  waits_in_.reset();
  Turn turn{queue, calls_.budget_end(), wakeup, {}};
  auto answer = co_await begin(turn);
  while (!answer) answer = co_await go_on(turn);
  co_return std::move(*answer);
}

// Each may be sent again: it is void the second time, and what the first has written is
// found then. That of a lease which was revoked is void, too, however late it comes.
asio::awaitable<TxnResult> EtcdClaimant::write(TxnRequest request, Turn& turn) {
  auto result = co_await calls_.txn(request, Repeat::freely, turn.until, turn.wakeup);
  if (!result.lease_gone) co_return result;
  // Another one may have set up that of the day in between.
  co_await day_lease_.set_up(turn.until, turn.wakeup);
  result =
      co_await calls_.txn(std::move(request), Repeat::freely, turn.until, turn.wakeup);
  if (result.lease_gone) forget_lease();
  co_return result;
}

asio::awaitable<void> EtcdClaimant::count(Turn& turn) {
  auto request = count_refused(scene());
  co_await write(std::move(request), turn);
}

// Takes over what the store says of the own entry.
void EtcdClaimant::adopt(const Line& line) {
  const auto* entry = entry_of(line, id());
  saw_readers_ = std::any_of(line.entries.begin(), line.entries.end(),
                             [](const Entry& one) { return one.mode == Mode::shared; });
  own_.reset();
  if (entry == nullptr || entry->foreign) return;
  own_ = *entry;
  if (lease_ != entry->lease) lasts_from_.reset();
  lease_ = entry->lease;
}

// The answer if that was all; else the line is in `turn`.
asio::awaitable<std::optional<Answer>> EtcdClaimant::begin(Turn& turn) {
  if (own_ && !own_->holds()) co_return co_await ask_as_waiter(turn);
  // One that does not wait is to write nothing where the lock is held.
  const bool is_to_enter = turn.queue == Queue::join && !own_ && lease_ == 0;
  if (is_to_enter) {
    co_await glance_with_lease(turn);
  } else {
    co_await glance(turn);
  }
  co_return std::nullopt;
}

// The lease lasts from now on whatever comes of it. Where nobody else matters, one that
// stands first enters by the same request.
asio::awaitable<std::optional<Answer>> EtcdClaimant::ask_as_waiter(Turn& turn) {
  const bool is_plain = !saw_readers_ && claim().mode == Mode::exclusive &&
                        claim().slots == 1 && !claim().dedupe;
  auto own = *own_;
  own.standing = Standing::holds;
  own.since = wall_now();
  std::vector<Request> requests;
  requests.emplace_back(LeaseKeepAliveRequest{lease_});
  requests.emplace_back(is_plain ? enter_first(scene(), own) : look_at(claim().lock));
  const auto sent_at = Clock::now();
  const auto results = co_await calls_.together(std::move(requests), Repeat::freely,
                                                turn.until, turn.wakeup);
  const auto& alive = std::get<LeaseKeepAliveResult>(results.at(0));
  const auto& result = std::get<TxnResult>(results.at(1));
  if (alive.ttl == 0) forget_lease();
  if (alive.ttl == 0 || result.lease_gone) {
    // The lease of the day, if it is not the own one.
    if (alive.ttl != 0) co_await day_lease_.set_up(turn.until, turn.wakeup);
    co_await look(turn);
    co_return std::nullopt;
  }
  // Else the lease is renewed once more before anything is granted: see extend().
  const bool is_confirmed = alive.term == result.term && covers(alive.ttl, claim());
  if (is_confirmed) lasts_from_ = sent_at;
  const bool has_entered = is_plain && result.succeeded;
  turn.line = line_from(claim().lock, result, has_entered ? 2 : 0);
  if (!has_entered || !is_confirmed) co_return std::nullopt;
  const auto line = turn.line;
  auto answer = co_await entered(std::move(own), result, line, turn);
  co_return std::optional<Answer>(std::move(answer));
}

// Does what has to be done next, as far as it is known; the answer if that was the last.
asio::awaitable<std::optional<Answer>> EtcdClaimant::go_on(Turn& turn) {
  adopt(turn.line);
  const auto decision = decide(turn.line, claim(), id(), turn.queue, wall_now());
  switch (decision.kind) {
    case Decision::Kind::answer: {
      auto answer = co_await leave_with(decision, turn);
      co_return std::optional<Answer>(std::move(answer));
    }
    case Decision::Kind::held: co_return co_await hold_again(turn);
    case Decision::Kind::enter: co_return co_await enter_as(decision, turn);
    case Decision::Kind::join: co_await join_as(decision, turn); break;
    case Decision::Kind::wait: co_return co_await wait_as(decision, turn);
  }
  co_return std::nullopt;
}

asio::awaitable<std::optional<Answer>> EtcdClaimant::enter_as(const Decision& decision,
                                                              Turn& turn) {
  co_await have_lease(turn);
  auto own = own_ ? *own_ : fresh_entry();
  own.standing = Standing::holds;
  own.since = wall_now();
  own.slot = decision.slot;
  const auto line = turn.line;
  auto request = enter(scene(), line, claim(), own, decision);
  const auto result = co_await write(std::move(request), turn);
  if (result.lease_gone) {
    co_await look(turn);
    co_return std::nullopt;
  }
  if (!result.succeeded) {
    turn.line = line_from(claim().lock, result);
    co_return std::nullopt;
  }
  auto answer = co_await entered(std::move(own), result, line, turn);
  co_return std::optional<Answer>(std::move(answer));
}

// What is there afterwards says whether it waits.
asio::awaitable<void> EtcdClaimant::join_as(const Decision& decision, Turn& turn) {
  co_await have_lease(turn);
  const auto own = fresh_entry();
  auto request = join(scene(), turn.line, claim(), own, decision);
  const auto result = co_await write(std::move(request), turn);
  if (result.lease_gone) {
    co_await look(turn);
    co_return;
  }
  const auto first = result.succeeded ? result.results.size() - 2 : 0;
  turn.line = line_from(claim().lock, result, first);
}

asio::awaitable<std::optional<Answer>> EtcdClaimant::wait_as(const Decision& decision,
                                                             Turn& turn) {
  if (!decision.lose.empty()) {
    auto request = take_away(scene(), decision.lose, taker(true));
    const auto result = co_await write(std::move(request), turn);
    if (result.lease_gone) {
      co_await look(turn);
      co_return std::nullopt;
    }
    const auto first = result.succeeded ? result.results.size() - 2 : 0;
    turn.line = line_from(claim().lock, result, first);
    co_return std::nullopt;
  }
  if (decision.counts_as_refused) co_await count(turn);
  waits_in_ = std::move(turn.line);
  co_return decision.answer;
}

// One that is not to have the lock leaves nothing behind.
asio::awaitable<Answer> EtcdClaimant::leave_with(const Decision& decision, Turn& turn) {
  const auto& answer = *decision.answer;
  if (decision.counts_as_refused) co_await count(turn);
  // A second time it could not be told any more.
  if (std::holds_alternative<Deduplicated>(answer) ||
      std::holds_alternative<Superseded>(answer)) {
    if (own_ || std::holds_alternative<Superseded>(answer)) told_ = answer;
  }
  if (lease_ != 0) co_await revoke(std::exchange(lease_, 0), turn);
  own_.reset();
  forget_lease();
  ++times_;
  co_return answer;
}

// It has the lock already: a grant of which it has not heard, or that it asks for again.
asio::awaitable<std::optional<Answer>> EtcdClaimant::hold_again(Turn& turn) {
  std::optional<Entry> entry;
  if (own_->attached || own_->ttl == seconds_for(claim())) {
    entry = co_await extend(turn.until, turn.wakeup);
  } else {
    entry = co_await move_to_new_lease(*own_, turn);
  }
  if (!entry) {
    co_await look(turn);
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

// The own entry says that it holds. If somebody waits to take the lock from whoever has
// it, that is done already.
asio::awaitable<Answer> EtcdClaimant::entered(Entry own, const TxnResult& result,
                                              const Line& line, Turn& turn) {
  own.modified = result.revision;
  if (own.created == 0) own.created = result.revision;
  granted_at_ = *lasts_from_;
  own_ = own;
  Grant grant;
  grant.fence = own.fence();
  grant.slot = own.slot;
  grant.sent_at = *lasts_from_;
  grant.deadline = LeaseTiming(claim().ttl, {}, {}).deadline(grant.sent_at);
  const auto* replaces = replacer(line, own.id);
  if (replaces != nullptr && claim().attached) {
    own.standing = Standing::broken;
    own.taken_by = Taker{replaces->user, replaces->host, true};
    auto request = rewrite(scene(), own);
    const auto marked = co_await write(std::move(request), turn);
    if (marked.succeeded) own.modified = marked.revision;
    own_ = own;
    taken_by_ = own.taken_by;
    grant.broken = true;
  }
  co_return grant;
}

}  // namespace dlock::etcd
