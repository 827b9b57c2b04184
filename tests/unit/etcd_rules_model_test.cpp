// The rules of a line under random schedules: clients that act on what they have read
// some time ago, on an etcd that does one transaction after the other.

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "store/etcd/decision.hpp"
#include "store/etcd/keys.hpp"
#include "store/etcd/steps.hpp"
#include "tests/unit/etcd_model.hpp"

namespace dlock::etcd {
namespace {

constexpr std::int64_t day_lease = 1;
const LockName job{"dlock", "job"};

struct Kind {
  const char* name;
  unsigned slots;
  bool readers;
  bool rivals;
  bool foreigners;
};
constexpr Kind kinds[] = {{"mutex", 1, false, false, true},
                          {"semaphore", 3, false, false, false},
                          {"readers_and_writers", 1, true, false, true},
                          {"rivals", 1, false, true, false},
                          {"rivals_in_slots", 2, false, true, false}};

std::string name_of(const ::testing::TestParamInfo<Kind>& info) {
  return info.param.name;
}

// Numbers that are the same on every machine and library, unlike std's distributions.
class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  unsigned below(unsigned end) { return static_cast<unsigned>(engine_() % end); }
  bool one_in(unsigned chances) { return below(chances) == 0; }

 private:
  std::mt19937 engine_;
};

// One that does what EtcdClaimant does, a request at a time.
class Client {
 public:
  Client(std::int64_t lease, Claim claim) : lease_(lease), claim_(std::move(claim)) {}

  std::string id() const { return id_of(lease_); }
  std::int64_t lease() const { return lease_; }
  bool believes() const { return believes_.has_value(); }
  bool is_over() const { return is_over_; }
  const Claim& claim() const { return claim_; }

  void act(EtcdModel& etcd, Dice& dice, WallTime now) {
    const Scene scene{job, now, day_lease};
    if (believes_) {
      if (dice.one_in(3)) give_back(etcd, scene);
      return;
    }
    // What was read may be old by the time it is acted on.
    if (!line_ || dice.one_in(4)) {
      line_ = line_from(job, etcd.execute(look_at(job)));
      if (!dice.one_in(3)) return;
    }
    go_on(etcd, scene);
  }

 private:
  Entry own_in(const Line& line, WallTime now) const {
    if (const auto* own = entry_of(line, id())) return *own;
    auto entry = entry_for(claim_, now);
    entry.id = id();
    entry.lease = lease_;
    return entry;
  }

  void go_on(EtcdModel& etcd, const Scene& scene) {
    const auto decision = decide(*line_, claim_, id(), Queue::join, scene.now);
    auto own = own_in(*line_, scene.now);
    switch (decision.kind) {
      case Decision::Kind::answer:
        etcd.end(lease_);
        is_over_ = true;
        return;
      case Decision::Kind::held: believes_ = own; return;
      case Decision::Kind::enter: {
        own.standing = Standing::holds;
        own.slot = decision.slot;
        const auto result = etcd.execute(enter(scene, *line_, claim_, own, decision));
        if (result.succeeded) {
          own.modified = result.revision;
          if (own.created == 0) own.created = result.revision;
          believes_ = own;
          return;
        }
        take_in(result, 0);
        return;
      }
      case Decision::Kind::join: {
        const auto result = etcd.execute(join(scene, *line_, claim_, own, decision));
        take_in(result, result.succeeded ? result.results.size() - 2 : 0);
        return;
      }
      case Decision::Kind::wait: {
        if (decision.lose.empty()) {
          line_.reset();
          return;
        }
        const auto result =
            etcd.execute(take_away(scene, decision.lose, {"user", "host", true}));
        take_in(result, result.succeeded ? result.results.size() - 2 : 0);
        return;
      }
    }
  }

  void take_in(const TxnResult& result, std::size_t first) {
    if (result.lease_gone) {
      is_over_ = true;
      return;
    }
    line_ = line_from(job, result, first);
  }

  void give_back(EtcdModel& etcd, const Scene& scene) {
    const auto result = etcd.execute(etcd::give_back(scene, *believes_, {}));
    if (!result.succeeded) {
      // It was broken, or its lease has ended.
      const auto line = line_from(job, result);
      const auto* own = entry_of(line, id());
      if (own != nullptr) {
        believes_ = *own;
        return;
      }
    }
    believes_.reset();
    is_over_ = true;
    etcd.end(lease_);
  }

  std::int64_t lease_;
  Claim claim_;
  std::optional<Line> line_;
  std::optional<Entry> believes_;  // that it holds, as this
  bool is_over_ = false;
};

class EtcdRules : public ::testing::TestWithParam<Kind> {
 protected:
  Claim random_claim(Dice& dice) const {
    Claim claim;
    claim.lock = job;
    claim.slots = GetParam().slots;
    if (GetParam().readers && dice.below(3) > 0) claim.mode = Mode::shared;
    if (!GetParam().rivals) return claim;
    claim.supersedes = dice.one_in(2);
    claim.replaces = dice.one_in(4);
    if (dice.one_in(3)) claim.max_queue = dice.below(4);
    return claim;
  }

  void come(Dice& dice) {
    const auto lease = ++last_lease_;
    etcd_.grant(lease);
    if (GetParam().foreigners && dice.one_in(5)) {
      foreign_.push_back(lease);
      PutRequest put;
      put.key = line_of(job) + id_of(lease);
      put.lease = lease;
      TxnRequest request;
      request.then.emplace_back(put);
      etcd_.execute(request);
      return;
    }
    clients_.emplace_back(lease, random_claim(dice));
  }

  // One of those that are there stops to be, or goes on.
  void one_acts(Dice& dice, WallTime now) {
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
    const bool dies = dice.one_in(40);
    if (dies) {
      etcd_.end(client->lease());
    } else {
      client->act(etcd_, dice, now);
    }
    if (dies || client->is_over()) clients_.erase(client);
  }

  Line line() {
    Line now;
    std::vector<KeyValue> pairs;
    for (const auto& [key, pair] : etcd_.keys()) {
      if (key.starts_with(line_of(job))) pairs.push_back(pair);
    }
    now.entries = entries_from(pairs, line_of(job));
    return now;
  }

  // Those who believe that they hold, by dlock's rules and by etcdctl's.
  void check() {
    unsigned exclusive = 0;
    unsigned shared = 0;
    std::vector<unsigned> slots;
    const auto now = line();
    for (const auto& client : clients_) {
      if (!client.believes()) continue;
      ++(client.claim().mode == Mode::shared ? shared : exclusive);
      const auto* own = entry_of(now, client.id());
      ASSERT_NE(own, nullptr);
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
    check_order(now);
  }

  // Nobody came to hold while one waited in front of it and could have held, too.
  void check_order(const Line& now) {
    for (const auto& entry : now.entries) {
      if (!entry.holds() || known_.count(entry.id) > 0) continue;
      known_.insert(entry.id);
      if (GetParam().readers) continue;
      for (const auto& before : now.entries) {
        if (before.created >= entry.created) break;
        // Of two that were promised slots either may be the first to take it.
        ASSERT_TRUE(before.holds() || has_its_turn(now, before))
            << entry.id << " has overtaken " << before.id;
      }
      ASSERT_GT(entry.fence(), GetParam().slots == 1 ? last_fence_ : Fence{});
      last_fence_ = std::max(last_fence_, entry.fence());
    }
  }

  EtcdModel etcd_;
  std::list<Client> clients_;
  std::vector<std::int64_t> foreign_;
  std::set<std::string> known_;
  Fence last_fence_;
  std::int64_t last_lease_ = day_lease;
};

INSTANTIATE_TEST_SUITE_P(Kinds, EtcdRules, ::testing::ValuesIn(kinds), name_of);

TEST_P(EtcdRules, exclude_whom_they_have_to_whatever_the_order_of_requests) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    for (const auto& client : clients_) etcd_.end(client.lease());
    for (const auto lease : foreign_) etcd_.end(lease);
    clients_.clear();
    foreign_.clear();
    etcd_.grant(day_lease);
    for (int step = 0; step < 300; ++step) {
      if (clients_.size() + foreign_.size() < 8 && dice.one_in(3)) come(dice);
      one_acts(dice, WallTime(step));
      check();
      if (HasFatalFailure()) return;
    }
  }
}

// Whatever happened, a lock that everybody who waits for it asks for is granted.
TEST_P(EtcdRules, leave_nobody_waiting_for_a_lock_that_is_free) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    etcd_.grant(day_lease);
    for (int step = 0; step < 100; ++step) {
      if (clients_.size() < 6) come(dice);
      one_acts(dice, WallTime(step));
    }
    for (const auto lease : foreign_) etcd_.end(lease);
    foreign_.clear();
    for (int step = 0; step < 3000 && !clients_.empty(); ++step) {
      one_acts(dice, WallTime(step));
    }
    ASSERT_TRUE(clients_.empty());
  }
}

}  // namespace
}  // namespace dlock::etcd
