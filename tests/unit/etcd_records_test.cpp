// Entries and runs as etcd keeps them, and values that others may have written there.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rules/state.hpp"
#include "store/etcd/etcd_entry.hpp"
#include "store/etcd/etcd_runs.hpp"
#include "tests/run_end.hpp"

namespace dlock::etcd {
namespace {

using std::chrono::seconds;

const LockName recorded{"dlock", "job"};

KeyValue pair_of(const std::string& key, const std::string& value,
                 std::int64_t revision = 5) {
  KeyValue pair;
  pair.key = key;
  pair.value = value;
  pair.create_revision = revision;
  pair.mod_revision = revision;
  pair.version = 1;
  pair.lease = 9;
  return pair;
}

QueueEntry read_back(const QueueEntry& entry) {
  return entry_from(pair_of("dlock/job/1f", text_of(entry)), queue_prefix(recorded));
}

Claim a_claim() {
  Claim claim;
  claim.lock = recorded;
  claim.label = "nightly \"run\"";
  claim.command = {"sh", "-c", "echo ü"};
  return claim;
}

TEST(EtcdEntry, records_what_a_claim_asks_for) {
  auto claim = a_claim();
  claim.slots = 3;
  claim.supersedes = true;
  claim.replaces = true;
  claim.dedupe = Dedupe{seconds(5), true};
  const auto entry = read_back(entry_for(claim, WallTime(1000)));

  EXPECT_FALSE(entry.foreign);
  EXPECT_EQ(entry.id, "1f");
  EXPECT_EQ(entry.created, 5);
  EXPECT_EQ(entry.lease, 9);
  EXPECT_EQ(entry.standing, Standing::waits);
  EXPECT_EQ(entry.slots, 3u);
  EXPECT_EQ(entry.since, WallTime(1000));
  EXPECT_TRUE(entry.attached);
  EXPECT_TRUE(entry.supersedes);
  EXPECT_TRUE(entry.replaces);
  ASSERT_TRUE(entry.dedupe);
  EXPECT_EQ(entry.dedupe->window, seconds(5));
  EXPECT_TRUE(entry.dedupe->retry_failed);
  EXPECT_EQ(entry.label, claim.label);
  EXPECT_EQ(entry.command, claim.command);
  EXPECT_EQ(entry.pid, ::getpid());
}

TEST(EtcdEntry, records_the_state_of_a_holder) {
  auto holder = entry_for(a_claim(), WallTime(1));
  holder.standing = Standing::broken;
  holder.slots = 3;
  holder.slot = 2;
  holder.attached = false;
  holder.ttl = 30;
  holder.given_fence = Fence{4};
  holder.taken_by = Taker{"root", "db1", true};
  const auto entry = read_back(holder);

  EXPECT_EQ(entry.standing, Standing::broken);
  EXPECT_EQ(entry.slot, 2u);
  EXPECT_FALSE(entry.attached);
  EXPECT_EQ(entry.ttl, 30);
  EXPECT_EQ(entry.fence(), Fence{4});
  EXPECT_EQ(entry.taken_by, holder.taken_by);
}

TEST(EtcdEntry, is_foreign_if_its_value_is_nested_too_deeply) {
  constexpr std::size_t depth = 200'000;
  const auto value = R"({"mode":"exclusive","standing":"waits","since":1,"detached":)" +
                     std::string(depth, '[') + std::string(depth, ']') + "}";

  EXPECT_TRUE(entry_from(pair_of("dlock/job/1f", value), queue_prefix(recorded)).foreign);
}

TEST(EtcdEntry, takes_its_fence_from_the_revision_of_its_creation) {
  EXPECT_EQ(read_back(entry_for(a_claim(), WallTime(1))).fence(), Fence{5});
}

TEST(EtcdEntry, is_a_foreign_holder_unless_dlock_wrote_it) {
  const auto own = text_of(entry_for(a_claim(), WallTime(1)));
  for (const std::string& value :
       {std::string(), std::string("[]"), std::string("{}"), std::string("{\"mode\":7}"),
        own.substr(0, own.size() - 1), std::string("\xff\xfe"), std::string(9000, '['),
        std::string(R"({"standing":"sits","mode":"shared","since":1})"),
        std::string(R"({"standing":"holds","mode":"exclusive","since":1,"slots":0})"),
        std::string(R"({"standing":"holds","mode":"exclusive","since":1,"slot":1})"),
        std::string(R"({"standing":"holds","mode":"exclusive","since":-1})")}) {
    const auto entry = entry_from(pair_of("dlock/job/1f", value), queue_prefix(recorded));
    EXPECT_TRUE(entry.foreign) << value;
    EXPECT_EQ(entry.mode, Mode::exclusive);
    EXPECT_EQ(entry.fence(), Fence{0});
    EXPECT_EQ(entry.id, "1f");
  }
}

TEST(EtcdEntry, is_sorted_by_its_creation) {
  const auto text = text_of(entry_for(a_claim(), WallTime(1)));
  const auto entries =
      entries_from({pair_of("dlock/job/a", text, 9), pair_of("dlock/job/b", "", 3),
                    pair_of("dlock/job/c", text, 5)},
                   queue_prefix(recorded));

  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].id, "b");
  EXPECT_EQ(entries[1].id, "c");
  EXPECT_EQ(entries[2].id, "a");
}

QueueEntry a_holder(std::int64_t revision) {
  auto holder = entry_for(a_claim(), WallTime(seconds(100)));
  holder.id = "1f";
  holder.standing = Standing::holds;
  holder.created = revision;
  return holder;
}

TEST(EtcdRuns, a_past_run_reads_back_as_written) {
  auto end = exit_with(3);
  end.lost = Loss::broken;
  const auto run = rules::ended_run(as_holder(a_holder(7)), end, moment_of(seconds(103)));
  const auto runs =
      runs_from({pair_of(past_key(recorded, Fence{7}), past_run_text(run, true), 12)},
                runs_prefix(recorded));

  ASSERT_EQ(runs.past.size(), 1u);
  EXPECT_EQ(runs.past[0].revision, 12);
  EXPECT_TRUE(runs.past[0].is_shared);
  const auto& info = runs.past[0].info;
  EXPECT_EQ(info.fence, Fence{7});
  EXPECT_EQ(info.started, WallTime(seconds(100)));
  EXPECT_EQ(info.ended, WallTime(seconds(103)));
  EXPECT_EQ(info.duration, end.duration);
  EXPECT_EQ(info.exit_code, 3);
  EXPECT_EQ(info.outcome, end.outcome);
  EXPECT_EQ(info.reason, "broken");
  EXPECT_TRUE(info.counts);
}

TEST(EtcdRuns, the_taker_of_a_lock_reads_back_as_written) {
  const Taker taker{"ann", "host", true, true};
  const auto runs = runs_from({pair_of(taken_key(recorded, "1f"), taken_text(taker), 12),
                               pair_of(taken_key(recorded, "2f"), "not JSON", 13)},
                              runs_prefix(recorded));

  ASSERT_EQ(runs.taken.size(), 1u);
  EXPECT_EQ(runs.taken[0].first, "1f");
  EXPECT_EQ(runs.taken[0].second, taker);
}

TEST(EtcdRuns, a_run_without_an_entry_has_vanished) {
  const auto holder = a_holder(7);
  const auto runs =
      runs_from({pair_of(now_key(recorded, "1f"), open_run_text(holder, {}))},
                runs_prefix(recorded));

  EXPECT_TRUE(vanished(runs, {holder}, WallTime(seconds(200))).empty());
  const auto gone = vanished(runs, {}, WallTime(seconds(200)));
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].outcome, "vanished");
  EXPECT_EQ(gone[0].fence, Fence{7});
  EXPECT_FALSE(gone[0].ended);
}

TEST(EtcdRuns, a_run_that_was_granted_at_once_has_its_revision_as_fence) {
  const auto runs =
      runs_from({pair_of(now_key(recorded, "1f"), open_run_text(a_holder(0), {}), 31)},
                runs_prefix(recorded));

  ASSERT_EQ(runs.open.size(), 1u);
  EXPECT_EQ(runs.open[0].info.fence, Fence{31});
}

TEST(EtcdRuns, a_lease_by_hand_ended_when_it_expired) {
  auto holder = a_holder(7);
  holder.attached = false;
  const auto runs = runs_from(
      {pair_of(now_key(recorded, "1f"), open_run_text(holder, WallTime(seconds(130))))},
      runs_prefix(recorded));
  const auto gone = vanished(runs, {}, WallTime(seconds(200)));

  ASSERT_EQ(gone.size(), 1u);
  EXPECT_TRUE(is_by_hand(gone[0]));
  EXPECT_EQ(gone[0].ended, WallTime(seconds(130)));
  EXPECT_EQ(gone[0].duration, seconds(30));
}

TEST(EtcdRuns, counters_are_the_versions_of_their_keys) {
  auto refused = pair_of(refused_key(recorded), "");
  refused.version = 4;
  const auto runs = runs_from({refused}, runs_prefix(recorded));

  EXPECT_EQ(runs.refused, 4u);
  EXPECT_EQ(runs.superseded, 0u);
}

TEST(EtcdRuns, unreadable_records_are_ignored) {
  std::vector<KeyValue> pairs;
  for (const std::string value : {"", "[]", "{}", "{\"fence\":-1,\"started\":1}", "x"}) {
    pairs.push_back(pair_of(past_key(recorded, Fence{1}), value));
    pairs.push_back(pair_of(now_key(recorded, "1"), value));
    pairs.push_back(pair_of(runs_prefix(recorded) + "else", value));
    pairs.push_back(pair_of("other", value));
  }
  const auto runs = runs_from(pairs, runs_prefix(recorded));

  EXPECT_TRUE(runs.past.empty());
  EXPECT_TRUE(runs.open.empty());
}

// A waiter for which it counted would wait for its end.
TEST(EtcdRuns, a_past_run_that_says_that_it_runs_is_ignored) {
  const auto value = past_run_text(
      rules::ended_run(as_holder(a_holder(7)), exit_with(0), moment_of(seconds(9))),
      false);
  auto forged = value;
  forged.replace(forged.find("\"ran\""), 5, "\"running\"");
  const auto runs = runs_from({pair_of(past_key(recorded, Fence{6}), value),
                               pair_of(past_key(recorded, Fence{7}), forged)},
                              runs_prefix(recorded));

  ASSERT_EQ(runs.past.size(), 1u);
  EXPECT_EQ(runs.past[0].key, past_key(recorded, Fence{6}));
}

// `count` runs, one after the other. Those up to `last_success` exit with 0.
Runs runs_with(unsigned count, unsigned last_success) {
  Runs runs;
  for (unsigned i = 1; i <= count; ++i) {
    const auto ended = WallTime(seconds(1000 + i));
    PastRun past;
    past.info = rules::ended_run(as_holder(a_holder(i)),
                                 exit_with(i <= last_success ? 0 : 1), moment_of(ended));
    past.key = past_key(recorded, past.info.fence);
    past.revision = i;
    runs.past.push_back(past);
  }
  return runs;
}

TEST(EtcdRuns, the_last_runs_are_kept_newest_first) {
  const auto kept = kept_runs(runs_with(25, 0), {}, WallTime(seconds(2000)));

  ASSERT_EQ(kept.size(), runs_kept);
  EXPECT_EQ(kept.front().fence, Fence{25});
  EXPECT_EQ(kept.back().fence, Fence{6});
}

TEST(EtcdRuns, nothing_is_deleted_while_there_are_at_most_30_runs) {
  EXPECT_TRUE(to_forget(runs_with(30, 0), {}, WallTime(seconds(2000))).empty());
}

TEST(EtcdRuns, older_runs_are_deleted_except_the_last_success) {
  const auto keys = to_forget(runs_with(31, 3), {}, WallTime(seconds(2000)));

  EXPECT_EQ(keys.size(), 31 - runs_kept - 1);
  for (const auto& key : keys) EXPECT_NE(key, past_key(recorded, Fence{3}));
}

}  // namespace
}  // namespace dlock::etcd
