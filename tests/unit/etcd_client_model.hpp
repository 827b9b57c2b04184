// A client that follows the queue rules against the model of etcd. It acts on a snapshot
// that may be stale.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>

#include "rules/granting.hpp"
#include "store/etcd/etcd_entry.hpp"
#include "store/etcd/etcd_queue.hpp"
#include "store/etcd/etcd_steps.hpp"
#include "tests/unit/etcd_model.hpp"

namespace dlock::etcd {

inline constexpr std::int64_t day_lease = 1;
inline const LockName job{"dlock", "job"};

// Random numbers that are the same with every library, unlike those of the standard
// distributions.
class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  unsigned below(unsigned end) { return static_cast<unsigned>(engine_() % end); }
  bool one_in(unsigned chances) { return below(chances) == 0; }

 private:
  std::mt19937 engine_;
};

// Whether the rules promise the lock to this waiter.
inline bool has_its_turn(const LockSnapshot& snapshot, const std::string& id) {
  class AllLive final : public rules::Liveness {
    bool is_alive(const rules::Holder&) const override { return true; }
    bool is_alive(const rules::Waiter&) const override { return true; }
    bool is_stopped(const rules::Waiter&) const override { return false; }
  };
  auto state = state_of(snapshot, id, entry_of(snapshot, id)->slots);
  rules::Consequences consequences;
  rules::tidy({state, {}, AllLive(), consequences});
  const auto waiter = rules::waiter_of(state, token_of(id));
  return waiter != state.waiters.end() && waiter->promised_until;
}

// Does what EtcdClaimant does, one request at a time.
class Client {
 public:
  Client(std::int64_t lease, Claim claim)
      : id_(id_of(lease)), lease_(lease), claim_(std::move(claim)) {}

  const std::string& id() const { return id_; }
  std::int64_t lease() const { return lease_; }
  bool believes() const { return believes_.has_value(); }
  Fence fence() const { return believes_->fence(); }
  bool was_set_up_again() const { return was_set_up_again_; }
  bool is_over() const { return is_over_; }
  const Claim& claim() const { return claim_; }

  // Sends the next request. A client with nested runs does not end before they do: then
  // `may_end` is false.
  void act(EtcdModel& etcd, Dice& dice, WallTime now, bool may_end) {
    const StepContext step_context{job, now, day_lease};
    was_set_up_again_ = false;
    const bool is_lost =
        believes_ && claim_.reclaim && etcd.keys().count(queue_prefix(job) + id_) == 0;
    if (believes_ && !is_lost) {
      if (may_end && dice.one_in(3)) give_back(etcd, step_context);
      return;
    }
    // The snapshot may be stale by the time the client acts on it.
    if (!line_ || dice.one_in(4)) {
      line_ = snapshot_from(job, etcd.execute(look_at(job)));
      if (!dice.one_in(3)) return;
    }
    if (is_lost) {
      set_up_again(etcd, step_context);
    } else if (seems_to_be_first()) {
      enter_unseen(etcd, step_context);
    } else {
      proceed(etcd, step_context);
    }
  }

 private:
  // A waiter that has seen no readers asks for the lock without reading the queue first.
  bool seems_to_be_first() const {
    const auto* own = entry_of(*line_, id_);
    return own != nullptr && !own->holds() && claim_.mode == Mode::exclusive &&
           claim_.slots == 1 &&
           std::none_of(line_->entries.begin(), line_->entries.end(),
                        [](const QueueEntry& e) { return e.mode == Mode::shared; });
  }

  void believe(const QueueEntry& own) {
    believes_ = own;
    line_.reset();
  }

  void enter_unseen(EtcdModel& etcd, const StepContext& step_context) {
    auto own = *entry_of(*line_, id_);
    own.standing = Standing::holds;
    const auto result = etcd.execute(enter_first(step_context, own));
    if (result.succeeded) {
      own.modified = result.revision;
      believe(own);
      return;
    }
    take_in(result, 0);
    if (line_) proceed(etcd, step_context);
  }

  // Writes the entry again as it was, on a new lease.
  void set_up_again(EtcdModel& etcd, const StepContext& step_context) {
    is_over_ = true;
    if (!can_be_set_up_again(*line_, *believes_)) return;
    constexpr std::int64_t unused = 1'000'000;
    auto own = *believes_;
    own.given_fence = own.fence();
    own.lease = lease_ + unused;
    own.modified = 0;
    etcd.grant(own.lease);
    const auto result = etcd.execute(etcd::set_up_again(step_context, *line_, own));
    if (!result.succeeded) {
      etcd.end(own.lease);
      return;
    }
    own.created = result.revision;
    own.modified = result.revision;
    lease_ = own.lease;
    believe(own);
    is_over_ = false;
    was_set_up_again_ = true;
  }

  QueueEntry own_in(const LockSnapshot& snapshot, WallTime now) const {
    if (const auto* own = entry_of(snapshot, id())) return *own;
    auto entry = entry_for(claim_, now);
    entry.id = id();
    entry.lease = lease_;
    return entry;
  }

  void proceed(EtcdModel& etcd, const StepContext& step_context) {
    const auto decision = decide(*line_, claim_, id(), Queue::join, step_context.now);
    auto own = own_in(*line_, step_context.now);
    switch (decision.kind) {
      case Decision::Kind::answer:
        check_answer();
        etcd.end(lease_);
        is_over_ = true;
        return;
      case Decision::Kind::held: believe(own); return;
      case Decision::Kind::enter: {
        own.standing = Standing::holds;
        own.slot = decision.slot;
        own.given_fence = decision.given_fence;
        const auto result =
            etcd.execute(enter(step_context, *line_, claim_, own, decision));
        if (result.succeeded) {
          own.modified = result.revision;
          if (own.created == 0) own.created = result.revision;
          believe(own);
          return;
        }
        take_in(result, 0);
        return;
      }
      case Decision::Kind::join: {
        const auto result =
            etcd.execute(join(step_context, *line_, claim_, own, decision));
        take_in(result, result.succeeded ? result.results.size() - 2 : 0);
        return;
      }
      case Decision::Kind::wait: {
        if (decision.lose.empty()) {
          line_.reset();
          return;
        }
        const auto result =
            etcd.execute(take_away(step_context, decision.lose, {"user", "host", true}));
        take_in(result, result.succeeded ? result.results.size() - 2 : 0);
        return;
      }
    }
  }

  // A nested reader is admitted, whoever waits, unless etcdctl is in the queue.
  void check_answer() const {
    if (claim_.outer_fences.empty()) return;
    const auto& entries = line_->entries;
    const auto is_foreign = [](const QueueEntry& entry) { return entry.foreign; };
    if (std::any_of(entries.begin(), entries.end(), is_foreign)) return;
    for (const auto& entry : entries) {
      EXPECT_FALSE(entry.holds() && entry.fence() == claim_.outer_fences.front())
          << id_ << " was not admitted inside " << entry.id;
    }
  }

  void take_in(const TxnResult& result, std::size_t first) {
    if (result.lease_gone) {
      is_over_ = true;
      return;
    }
    line_ = snapshot_from(job, result, first);
  }

  void give_back(EtcdModel& etcd, const StepContext& step_context) {
    Ending ending;
    ending.end.emplace().outcome = "ran";
    const auto result = etcd.execute(etcd::give_back(step_context, *believes_, ending));
    if (!result.succeeded) {
      // The lease was broken or has expired.
      const auto snapshot = snapshot_from(job, result);
      const auto* own = entry_of(snapshot, id());
      if (own != nullptr) {
        believes_ = *own;
        return;
      }
    }
    believes_.reset();
    is_over_ = true;
    etcd.end(lease_);
  }

  std::string id_;
  std::int64_t lease_;
  Claim claim_;
  std::optional<LockSnapshot> line_;
  std::optional<QueueEntry>
      believes_;                   // its entry, if it believes that it holds the lock
  bool was_set_up_again_ = false;  // by the last act()
  bool is_over_ = false;
};

}  // namespace dlock::etcd
