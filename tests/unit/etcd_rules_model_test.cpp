// The queue rules of etcd under random schedules: the clients act on snapshots that may
// be stale, and the model of etcd executes one transaction after the other.

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "store/etcd/etcd_entry.hpp"
#include "store/etcd/etcd_queue.hpp"
#include "store/etcd/etcd_steps.hpp"
#include "tests/unit/etcd_client_model.hpp"
#include "tests/unit/etcd_model.hpp"
#include "tests/unit/setting.hpp"

namespace dlock::etcd {
namespace {

struct LockKind {
  const char* name;
  unsigned slots = 1;
  bool readers = false;
  bool nested = false;  // readers nested in readers
  bool queue_options = false;
  bool reclaim = false;
  bool foreigners = false;
};
constexpr LockKind kinds[] = {
    {.name = "mutex", .foreigners = true},
    {.name = "semaphore", .slots = 3},
    {.name = "readers_and_writers", .readers = true, .foreigners = true},
    {.name = "nested_readers", .readers = true, .nested = true},
    {.name = "nested_readers_beside_etcdctl",
     .readers = true,
     .nested = true,
     .foreigners = true},
    {.name = "queue_options", .queue_options = true},
    {.name = "queue_options_in_slots", .slots = 2, .queue_options = true},
    {.name = "reclaimers", .reclaim = true},
    {.name = "reclaimers_in_slots", .slots = 3, .reclaim = true},
    {.name = "readers_who_reclaim", .readers = true, .nested = true, .reclaim = true}};

std::string name_of(const ::testing::TestParamInfo<LockKind>& info) {
  return info.param.name;
}

class EtcdRules : public ::testing::TestWithParam<LockKind> {
 protected:
  Claim random_claim(Dice& dice) const {
    Claim claim;
    claim.lock = job;
    claim.slots = GetParam().slots;
    if (GetParam().readers && dice.below(3) > 0) claim.mode = Mode::shared;
    claim.reclaim = GetParam().reclaim;
    if (GetParam().nested && claim.mode == Mode::shared && dice.one_in(2)) {
      claim.outer_fences = fences_of_readers();
    }
    if (!GetParam().queue_options) return claim;
    claim.supersedes = dice.one_in(2);
    claim.replaces = dice.one_in(4);
    if (dice.one_in(3)) claim.max_queue = dice.below(4);
    return claim;
  }

  // The fence of the first reader that believes it holds the lock, if there is one.
  std::vector<Fence> fences_of_readers() const {
    for (const auto& client : clients_) {
      const bool reads = client.believes() && client.claim().mode == Mode::shared;
      if (reads) return {client.fence()};
    }
    return {};
  }

  bool has_one_inside(const Client& outer) const {
    return std::any_of(clients_.begin(), clients_.end(), [&](const Client& client) {
      const auto& above = client.claim().outer_fences;
      return outer.believes() && !above.empty() && above.front() == outer.fence();
    });
  }

  void one_arrives(Dice& dice) {
    const auto lease = ++last_lease_;
    etcd_.grant(lease);
    if (GetParam().foreigners && dice.one_in(5)) {
      foreign_.push_back(lease);
      PutRequest put;
      put.key = queue_prefix(job) + id_of(lease);
      put.lease = lease;
      TxnRequest request;
      request.then.emplace_back(put);
      etcd_.execute(request);
      return;
    }
    clients_.emplace_back(lease, random_claim(dice));
  }

  // One of the clients acts or, unless all survive, dies, or a foreign entry is removed.
  void one_acts(Dice& dice, WallTime now) {
    set_up_again_.reset();
    if (!foreign_.empty() && dice.one_in(6)) {
      const auto at =
          foreign_.begin() + dice.below(static_cast<unsigned>(foreign_.size()));
      etcd_.end(*at);
      foreign_.erase(at);
      return;
    }
    if (clients_.empty()) return;
    auto client =
        std::next(clients_.begin(), dice.below(static_cast<unsigned>(clients_.size())));
    const bool has_inner = has_one_inside(*client);
    const bool dies = !all_survive_ && dice.one_in(has_inner ? 6 : 40);
    if (dies) {
      etcd_.end(client->lease());
    } else if (!all_survive_ && client->claim().reclaim && client->believes() &&
               dice.one_in(6)) {
      etcd_.end(client->lease());
      return;  // and the client does not know
    } else {
      client->act(etcd_, dice, now, !has_inner);
    }
    if (client->was_set_up_again()) set_up_again_ = client->fence();
    if (dies || client->is_over()) clients_.erase(client);
  }

  LockSnapshot snapshot() {
    LockSnapshot now;
    std::vector<KeyValue> pairs;
    for (const auto& [key, pair] : etcd_.keys()) {
      if (key.starts_with(queue_prefix(job))) pairs.push_back(pair);
    }
    now.entries = entries_from(pairs, queue_prefix(job));
    return now;
  }

  // Checks the clients that believe they hold the lock, by the rules of dlock and of
  // etcdctl.
  void check() {
    unsigned exclusive = 0;
    unsigned shared = 0;
    std::vector<unsigned> slots;
    const auto now = snapshot();
    for (const auto& client : clients_) {
      if (!client.believes()) continue;
      const auto* own = entry_of(now, client.id());
      if (own == nullptr && client.claim().reclaim) continue;  // its lease has vanished
      ASSERT_NE(own, nullptr);
      ++(client.claim().mode == Mode::shared ? shared : exclusive);
      ASSERT_TRUE(own->holds());
      if (own->mode == Mode::exclusive) slots.push_back(own->slot);
    }
    if (!now.entries.empty() && now.entries.front().foreign) {
      ASSERT_EQ(exclusive + shared, 0u) << "beside etcdctl";
    }
    ASSERT_LE(exclusive, GetParam().slots);
    ASSERT_TRUE(exclusive == 0 || shared == 0);
    std::sort(slots.begin(), slots.end());
    ASSERT_EQ(std::unique(slots.begin(), slots.end()), slots.end()) << "one slot twice";
    for (const auto slot : slots) ASSERT_LT(slot, GetParam().slots);
    if (set_up_again_) {
      ASSERT_EQ(*set_up_again_, last_fence_)
          << "another claim was granted the lock since";
    }
    check_order(now);
  }

  // No entry became a holder while an earlier waiter could have held as well.
  void check_order(const LockSnapshot& now) {
    for (const auto& entry : now.entries) {
      if (!entry.holds() || known_.count(entry.id) > 0) continue;
      known_.insert(entry.id);
      const auto last_fence = last_fence_;
      last_fence_ = std::max(last_fence_, entry.fence());
      ASSERT_GT(entry.fence(), greatest_recorded());
      if (GetParam().readers) continue;
      for (const auto& before : now.entries) {
        if (before.created >= entry.created) break;
        // Of two waiters that were promised slots, either may take its slot first.
        ASSERT_TRUE(before.holds() || has_its_turn(now, before.id))
            << entry.id << " has overtaken " << before.id;
      }
      ASSERT_GT(entry.fence(), GetParam().slots == 1 ? last_fence : Fence{});
    }
  }

  // Of the runs that are over.
  Fence greatest_recorded() const {
    std::vector<KeyValue> pairs;
    for (const auto& [key, pair] : etcd_.keys()) pairs.push_back(pair);
    Fence greatest;
    for (const auto& run : runs_from(pairs, runs_prefix(job)).past) {
      greatest = std::max(greatest, run.info.fence);
    }
    return greatest;
  }

  EtcdModel etcd_;
  std::list<Client> clients_;
  std::vector<std::int64_t> foreign_;
  std::set<std::string> known_;
  Fence last_fence_;
  std::optional<Fence> set_up_again_;  // the fence, if the last step did so
  std::int64_t last_lease_ = day_lease;
  bool all_survive_ = false;  // no client dies or loses its lease
};

INSTANTIATE_TEST_SUITE_P(Kinds, EtcdRules, ::testing::ValuesIn(kinds), name_of);

TEST_P(EtcdRules, exclude_conflicting_holders_in_any_order_of_requests) {
  for (unsigned seed = 1; seed <= 1 + test_rounds() / 500; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    etcd_ = {};
    clients_.clear();
    foreign_.clear();
    known_.clear();
    last_fence_ = {};
    etcd_.grant(day_lease);
    for (int step = 0; step < 300; ++step) {
      if (clients_.size() + foreign_.size() < 8 && dice.one_in(3)) one_arrives(dice);
      one_acts(dice, WallTime(step));
      check();
      if (HasFailure()) return;
    }
  }
}

// Whatever has happened, the lock is granted to every waiter that keeps asking for it.
TEST_P(EtcdRules, leave_nobody_waiting_for_a_free_lock) {
  for (unsigned seed = 1; seed <= 1 + test_rounds() / 500; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    all_survive_ = false;
    etcd_.grant(day_lease);
    for (int step = 0; step < 100; ++step) {
      if (clients_.size() < 6) one_arrives(dice);
      one_acts(dice, WallTime(step));
    }
    for (const auto lease : foreign_) etcd_.end(lease);
    foreign_.clear();
    all_survive_ = true;
    for (int step = 0; step < 3000 && !clients_.empty(); ++step) {
      one_acts(dice, WallTime(step));
    }
    ASSERT_TRUE(clients_.empty());
  }
}

// Random schedules seldom produce this case.
TEST(EtcdSteps, do_not_let_a_nested_reader_pass_a_writer_after_its_outer_reader_ended) {
  EtcdModel etcd;
  constexpr std::int64_t outer = 2, writer = 3, inner = 4;
  for (const auto lease : {day_lease, outer, writer, inner}) etcd.grant(lease);
  const StepContext step_context{job, {}, day_lease};
  const auto execute = [&](std::int64_t lease, const Claim& claim,
                           const LockSnapshot& snapshot) {
    const auto decision = decide(snapshot, claim, id_of(lease), Queue::join, {});
    auto entry = entry_for(claim, {});
    entry.id = id_of(lease);
    entry.lease = lease;
    const bool enters = decision.kind == Decision::Kind::enter;
    if (enters) entry.standing = Standing::holds;
    return etcd.execute(enters ? enter(step_context, snapshot, claim, entry, decision)
                               : join(step_context, snapshot, claim, entry, decision));
  };
  const auto now = [&] { return snapshot_from(job, etcd.execute(look_at(job))); };
  Claim reads;
  reads.lock = job;
  reads.mode = Mode::shared;
  Claim writes;
  writes.lock = job;
  ASSERT_TRUE(execute(outer, reads, now()).succeeded);
  ASSERT_TRUE(execute(writer, writes, now()).succeeded);
  const auto seen = now();
  ASSERT_EQ(state_of(seen).waiters.size(), 1u);

  auto nested = reads;
  nested.outer_fences = {seen.entries.front().fence()};
  etcd.end(outer);

  EXPECT_FALSE(execute(inner, nested, seen).succeeded);
}

}  // namespace
}  // namespace dlock::etcd
