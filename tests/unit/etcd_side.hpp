// Etcd as one side of a random history. See etcd_histories.hpp.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "record/record_fields.hpp"
#include "tests/unit/etcd_histories.hpp"
#include "tests/unit/etcd_model.hpp"

namespace dlock::etcd::histories {

// What a history needs of etcd.
class Transactions {
 public:
  virtual ~Transactions() = default;
  virtual std::int64_t revision() const = 0;
  virtual TxnResult execute(const TxnRequest& request) = 0;
  virtual void grant(std::int64_t lease) = 0;
  virtual void end(std::int64_t lease) = 0;
};

class OfModel final : public Transactions {
 public:
  std::int64_t revision() const override { return model_.revision(); }
  TxnResult execute(const TxnRequest& request) override {
    return model_.execute(request);
  }
  void grant(std::int64_t lease) override { model_.grant(lease); }
  void end(std::int64_t lease) override { model_.end(lease); }

 private:
  EtcdModel model_;
};

// A mistake in what a claimant of etcd sees, decides or writes.
struct SpoilsEtcd {
  std::function<void(LockSnapshot&)> sees;
  std::function<void(Decision&)> decides;
  std::function<void(TxnRequest&)> writes;
};

class EtcdSide final : public Side {
 public:
  EtcdSide(Transactions& etcd, LockName lock, std::int64_t first_lease, SpoilsEtcd spoils)
      : etcd_(etcd),
        lock_(std::move(lock)),
        day_lease_(first_lease),
        spoils_(std::move(spoils)) {
    etcd_.grant(day_lease_);
    known_ = look();
  }

  Seen take(const Step& step, Contender& contender) override {
    now_ = step.now;
    seen_ = {};
    seen_.answer = act(step, contender);
    note_changes({});
    auto state = state_of(known_);
    rules::Consequences consequences;
    rules::tidy({state, {}, rules::FakeLiveness(), consequences});
    seen_.state = shown(state, [&](const Token& token) { return name_of(token); }, {});
    return std::exchange(seen_, {});
  }

  // Whether the watch of this waiter has reported a change since it asked, or will when
  // the waiter before it, which is one of `promised`, takes the lock.
  bool wakes(Session waiter, const std::set<Session>& promised) const {
    if (woken_.count(waiter) > 0) return true;
    const auto watched = watched_.find(waiter);
    return watched != watched_.end() && watched->second.puts &&
           std::any_of(promised.begin(), promised.end(), [&](Session before) {
             return watched->second.id == id_of(before);
           });
  }

 private:
  using Side::name_of;

  std::int64_t lease_of(Session number) const {
    return day_lease_ + static_cast<std::int64_t>(number);
  }
  std::string id_of(Session number) const { return etcd::id_of(lease_of(number)); }
  std::string name_of(const Token& token) const {
    for (const auto& entry : known_.entries) {
      if (token_of(entry.id) == token) {
        return std::to_string(std::stoll(entry.id, nullptr, 16) - day_lease_);
      }
    }
    return "none";
  }
  StepContext context() const { return {lock_, now_, day_lease_}; }

  LockSnapshot look() const {
    return snapshot_from(lock_, etcd_.execute(look_at(lock_)));
  }

  TxnResult write(TxnRequest request) {
    if (spoils_.writes) spoils_.writes(request);
    const auto result = etcd_.execute(request);
    EXPECT_FALSE(result.lease_gone);
    note_changes(request.then);
    return result;
  }

  // What watchers see of the last transaction.
  void note_changes(const std::vector<Operation>& done) {
    if (done.empty() && etcd_.revision() == known_.revision) return;
    const auto before = std::exchange(known_, look());
    RunChanges aside;
    for (const auto& operation : done) {
      const auto prefix = runs_prefix(lock_);
      if (const auto* put = std::get_if<PutRequest>(&operation)) {
        const KeyValue pair{put->key, put->value, 1, 1, 1, put->lease};
        auto runs = runs_from({pair}, prefix);
        for (auto& run : runs.past) aside.ended.push_back(std::move(run));
        for (auto& [id, taker] : runs.taken) aside.taken.emplace(id, std::move(taker));
      } else if (const auto* gone = std::get_if<DeleteRequest>(&operation)) {
        const auto open = prefix + "now/";
        if (gone->key.starts_with(open))
          aside.closed.insert(gone->key.substr(open.size()));
      }
    }
    for (const auto& event : events_between(before, known_, aside, lock_, now_)) {
      seen_.events.push_back(text_of(event));
    }
    for (const auto& [number, watched] : watched_) {
      if (has_changed(before, watched)) woken_.insert(number);
    }
  }

  bool has_changed(const LockSnapshot& before, const WatchedKeys& watched) const {
    const auto is_watched = [&](const QueueEntry& entry) {
      return watched.id.empty() || watched.id == entry.id;
    };
    for (const auto& entry : before.entries) {
      if (is_watched(entry) && entry_of(known_, entry.id) == nullptr) return true;
    }
    for (const auto& entry : known_.entries) {
      const auto* former = entry_of(before, entry.id);
      const bool is_put = former == nullptr || former->modified != entry.modified;
      if (is_put && is_watched(entry) && watched.puts) return true;
    }
    return false;
  }

  std::string act(const Step& step, Contender& contender) {
    const auto lease = lease_of(contender.number);
    switch (step.act) {
      case Act::ask: return ask(step, contender);
      case Act::release: return release(step, contender);
      case Act::check: return check(contender);
      case Act::take_away: return take_away(step);
      case Act::die: {
        const auto* own = entry_of(known_, id_of(contender.number));
        etcd_.end(own == nullptr ? lease : own->lease);
        watched_.erase(contender.number);
        return "";
      }
      case Act::foreign_comes: {
        etcd_.grant(lease);
        PutRequest put;
        put.key = queue_prefix(lock_) + id_of(contender.number);
        put.lease = lease;
        TxnRequest request;
        request.then.emplace_back(put);
        etcd_.execute(request);
        return "";
      }
      case Act::inspect: break;
    }
    return text_of(info_of(known_, lock_, now_)) + text_of(history_of(known_, now_));
  }

  QueueEntry own_entry(const Contender& contender) const {
    if (const auto* own = entry_of(known_, id_of(contender.number))) return *own;
    auto entry = entry_for(contender.claim, now_);
    entry.id = id_of(contender.number);
    entry.lease = lease_of(contender.number);
    entry.user = "u";
    return entry;
  }

  // As EtcdClaimant::ask() does.
  std::string ask(const Step& step, Contender& contender) {
    const auto number = contender.number;
    const auto claim = claim_of(contender);
    if (entry_of(known_, id_of(number)) == nullptr) etcd_.grant(lease_of(number));
    watched_.erase(number);
    woken_.erase(number);
    for (int tries = 0; tries < 10; ++tries) {
      auto snapshot = known_;
      if (spoils_.sees) spoils_.sees(snapshot);
      auto decision = decide(snapshot, claim, id_of(number), step.queue, now_);
      if (spoils_.decides) spoils_.decides(decision);
      auto own = own_entry(contender);
      switch (decision.kind) {
        case Decision::Kind::answer:
          if (decision.counts_as_refused) write(count_refused(context()));
          etcd_.end(lease_of(number));
          return text_of(*decision.answer);
        case Decision::Kind::held: return text_of(grant_of(own));
        case Decision::Kind::enter:
          own.standing = Standing::holds;
          own.since = now_;
          own.slot = decision.slot;
          own.given_fence = decision.given_fence;
          if (!write(enter(context(), snapshot, claim, own, decision)).succeeded) break;
          return entered(decision.taken_by, contender);
        case Decision::Kind::join:
          write(join(context(), snapshot, claim, own, decision));
          break;
        case Decision::Kind::wait:
          if (!decision.lose.empty()) {
            write(etcd::take_away(context(), decision.lose, own_taker(true)));
            break;
          }
          if (decision.counts_as_refused) write(count_refused(context()));
          watched_[number] = watched_by(known_, own);
          return text_of(*decision.answer);
      }
    }
    return "no end";
  }

  Answer grant_of(const QueueEntry& own) const {
    Grant grant;
    grant.slot = own.slot;
    grant.broken = own.standing == Standing::broken;
    return grant;
  }

  std::string entered(const std::optional<Taker>& taken_by, const Contender& contender) {
    auto own = own_entry(contender);
    fences_[contender.number] = own.fence();
    entries_[contender.number] = own;
    if (taken_by && contender.claim.attached) {
      own.standing = Standing::broken;
      own.taken_by = taken_by;
      write(rewrite(context(), own));
    }
    return text_of(grant_of(own));
  }

  std::string release(const Step& step, const Contender& contender) {
    const auto* own = entry_of(known_, id_of(contender.number));
    watched_.erase(contender.number);
    const bool is_loss_known = !step.end || step.end->lost;
    if (own == nullptr || own->standing == Standing::ended) {
      if (!contender.was_granted || !step.end) return "not ours";
      if (!is_loss_known) return check(contender);
      write(
          record_lost(context(), known_.runs, entries_.at(contender.number), *step.end));
      return "not ours";
    }
    if (own->standing == Standing::broken && !is_loss_known) return "broken";
    const bool held = own->holds();
    Ending ending;
    if (held) ending.end = step.end;
    const bool is_kept = held && step.end && contender.claim.min_hold.count() > 0 &&
                         own->standing == Standing::holds;
    if (is_kept) ending.kept_on = day_lease_ + kept_leases + ++kept_;
    if (is_kept) etcd_.grant(ending.kept_on);
    write(give_back(context(), *own, ending));
    auto forgets = forget(to_forget(known_.runs, known_.entries, now_));
    if (!forgets.then.empty()) etcd_.execute(forgets);
    return held ? "released" : "not ours";
  }

  std::string check(const Contender& contender) const {
    const auto* own = entry_of(known_, id_of(contender.number));
    if (own != nullptr && own->holds() && own->standing != Standing::ended) {
      return own->standing == Standing::broken ? "broken" : "renewed";
    }
    const auto fence = fences_.find(contender.number);
    if (fence == fences_.end()) return "lost";
    return "lost" + text_of(rules::forced_by(state_of(known_), fence->second));
  }

  std::string take_away(const Step& step) {
    const Break order{fences_of(step.meant), step.by_force};
    const auto decision = decide_on_break(known_, order, now_);
    auto self = own_taker(false);
    self.forced = step.by_force;
    if (!decision.lose.empty()) {
      write(etcd::take_away(context(), decision.lose, self));
    }
    return text_of_holders(decision.meant);
  }

  static constexpr std::int64_t kept_leases = 1'000'000;

  Transactions& etcd_;
  LockName lock_;
  std::int64_t day_lease_;
  SpoilsEtcd spoils_;
  WallTime now_{};
  LockSnapshot known_;  // now
  Seen seen_;
  std::map<Session, QueueEntry> entries_;  // as they were granted
  std::map<Session, WatchedKeys> watched_;
  std::set<Session> woken_;
  std::int64_t kept_ = 0;
};

}  // namespace dlock::etcd::histories
