// The rules of src/rules decide on a lock in etcd as well, by a state that is derived
// from its entries, and what follows is written as transactions. Random histories show
// that nothing is lost on the way: the rules on their own state show the same after every
// step.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/unit/etcd_random_history.hpp"
#include "tests/unit/setting.hpp"

namespace dlock::etcd::histories {
namespace {

constexpr unsigned steps_of_history = 250;

// The first difference in histories of this kind; empty if there is none.
std::string first_difference(const LockKind& kind, unsigned histories,
                             const SpoilsState& state = {},
                             const SpoilsEtcd& etcd_spoils = {}) {
  const auto first_seed = static_cast<unsigned>(setting("DLOCK_TEST_SEED", 1));
  for (unsigned i = 0; i < histories; ++i) {
    OfModel etcd;
    History history(kind, first_seed + i, etcd, lock_of_history(), 1, state, etcd_spoils);
    for (unsigned step = 0; step < steps_of_history; ++step) {
      auto difference = history.take_step();
      if (!difference.empty()) return difference;
    }
  }
  return "";
}

class EtcdAgainstRules : public ::testing::TestWithParam<LockKind> {};

TEST_P(EtcdAgainstRules, both_sides_show_the_same_after_every_step) {
  const auto histories = static_cast<unsigned>(test_rounds() / 1000);

  const auto difference = first_difference(GetParam(), 1 + histories);

  EXPECT_TRUE(difference.empty()) << difference;
}

INSTANTIATE_TEST_SUITE_P(Kinds, EtcdAgainstRules, ::testing::ValuesIn(lock_kinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

const LockKind& mutex = lock_kinds[0];
const LockKind& semaphore = lock_kinds[1];
const LockKind& readers = lock_kinds[2];
const LockKind& runs = lock_kinds[3];
const LockKind& queue_options = lock_kinds[5];

// Mistakes in the rules, and the kinds of locks that show them.
struct MistakeInRules {
  const char* name;
  const LockKind& kind;
  SpoilsState spoils;
};
const MistakeInRules mistakes_in_rules[] = {
    {"newcomers overtake", mutex,
     [](const rules::State& before, rules::State& state) {
       if (state.waiters.size() <= before.waiters.size()) return;
       std::rotate(state.waiters.begin(), state.waiters.end() - 1, state.waiters.end());
     }},
    {"ends are forgotten", runs,
     [](const rules::State&, rules::State& state) { state.past = {}; }},
    {"the broken are not marked", semaphore,
     [](const rules::State&, rules::State& state) {
       for (auto& holder : state.holders) holder.broken = false;
     }},
    {"no lock stays held", runs,
     [](const rules::State&, rules::State& state) {
       std::erase_if(state.holders, [](const auto& holder) { return holder.ended; });
     }},
    {"the superseded are not counted", queue_options,
     [](const rules::State& before, rules::State& state) {
       state.superseded = before.superseded;
     }},
    {"a reader gets a slot", readers, [](const rules::State&, rules::State& state) {
       for (auto& holder : state.holders) holder.slot += holder.mode == Mode::shared;
     }}};

// Mistakes in what a claimant of etcd sees, decides and writes.
struct MistakeInEtcd {
  const char* name;
  const LockKind& kind;
  SpoilsEtcd spoils;
};

// One that leaves out each operation on a key below this part of the records.
SpoilsEtcd never_writes(const std::string& part) {
  return {{}, {}, [part](TxnRequest& request) {
            std::erase_if(request.then, [&](const Operation& operation) {
              const auto* put = std::get_if<PutRequest>(&operation);
              return put != nullptr && put->key.find(part) != std::string::npos;
            });
          }};
}

const MistakeInEtcd mistakes_in_etcd[] = {
    {"the oldest entry is not seen",
     mutex,
     {[](LockSnapshot& snapshot) {
        if (!snapshot.entries.empty()) snapshot.entries.erase(snapshot.entries.begin());
      },
      {},
      {}}},
    {"runs are not seen", runs, {[](LockSnapshot& seen) { seen.runs = {}; }, {}, {}}},
    {"a broken holder seems to hold",
     runs,
     {[](LockSnapshot& snapshot) {
        for (auto& entry : snapshot.entries) {
          if (entry.standing == Standing::broken) entry.standing = Standing::holds;
        }
      },
      {},
      {}}},
    {"slots are not chosen",
     semaphore,
     {{}, [](Decision& decision) { decision.slot = 0; }, {}}},
    {"no waiter gives way",
     queue_options,
     {{}, [](Decision& decision) { decision.give_way.clear(); }, {}}},
    {"no claim is counted as refused",
     mutex,
     {{}, [](Decision& decision) { decision.counts_as_refused = false; }, {}}},
    {"past runs are not recorded", mutex, never_writes("/past/")},
    {"grants are not recorded", mutex, never_writes("/now/")},
    {"the superseded are not told", queue_options, never_writes("/told/")},
    {"takers are not recorded", semaphore, never_writes("/taken/")}};

constexpr unsigned enough = 4;

TEST(EtcdHistories, find_each_mistake_in_the_rules) {
  for (const auto& mistake : mistakes_in_rules) {
    const auto difference = first_difference(mistake.kind, enough, mistake.spoils);

    EXPECT_FALSE(difference.empty()) << mistake.name;
  }
}

TEST(EtcdHistories, find_each_mistake_on_etcd) {
  for (const auto& mistake : mistakes_in_etcd) {
    const auto difference = first_difference(mistake.kind, enough, {}, mistake.spoils);

    EXPECT_FALSE(difference.empty()) << mistake.name;
  }
}

}  // namespace
}  // namespace dlock::etcd::histories
