// The state of a lock as bytes: it is read as it was written; other bytes are refused.

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "record/states.hpp"

namespace dlock::record {
namespace {

using rules::Holder;
using rules::Party;
using rules::State;
using rules::Waiter;

Party some_party(std::uint8_t number) {
  Party party;
  party.token.bytes.fill(number);
  party.session = 70'000 + number;
  party.pid = 1234;
  party.pid_namespace = 4'026'531'836;
  party.user = "1000";
  party.host = "web1";
  return party;
}

Holder some_holder() {
  Holder holder;
  holder.party = some_party(1);
  holder.command = 4711;
  holder.command_after = 5;
  holder.command_before = 9;
  holder.mode = Mode::shared;
  holder.slot = 2;
  holder.fence.number = 1'700'000'000'000'000;
  holder.since = WallTime(1'700'000'000'000'001);
  holder.granted_at = Clock::time_point(nanoseconds(77));
  holder.ends_at = Clock::time_point(nanoseconds(88));
  holder.label = "nightly \xE2\x9C\x93";
  holder.argv = {"sh", "-c", "", std::string("nul\0byte", 8)};
  holder.counts = true;
  holder.min_hold = milliseconds(99);
  holder.for_pid = true;
  holder.ended = true;
  holder.broken = true;
  return holder;
}

Waiter some_waiter() {
  Waiter waiter;
  waiter.party = some_party(2);
  waiter.mode = Mode::shared;
  waiter.since = WallTime(3);
  waiter.queued_at = Clock::time_point(nanoseconds(99));
  waiter.promised_until = Clock::time_point(nanoseconds(111));
  waiter.passed_over = true;
  waiter.dedupe = Dedupe{milliseconds(3600), true, true};
  return waiter;
}

RunInfo some_run() {
  RunInfo run;
  run.fence.number = 17;
  run.started = WallTime(1000);
  run.ended = WallTime(2000);
  run.duration = milliseconds(1);
  run.exit_code = -1;
  run.signal = "TERM";
  run.host = "web2";
  run.outcome = "ran";
  run.counts = true;
  return run;
}

RunInfo longest_run() {
  RunInfo run = some_run();
  run.signal = "RTMIN+30";
  run.host = std::string(64, 'h');
  run.outcome = "interrupted";
  return run;
}

State rich_state() {
  State state;
  state.last_fence.number = greatest_fence.number;
  state.slots = 3;
  state.used = WallTime(12'345);
  state.holders = {some_holder(), Holder{}};
  state.waiters = {some_waiter(), Waiter{}};
  state.holders[1].party.user = state.waiters[1].party.user = "0";
  state.last_run = some_run();
  state.past.last = some_run();
  state.past.last_success = some_run();
  state.past.last_success->fence.number = 16;
  state.answered = {{some_waiter(), some_run()}};
  state.runs = {some_run(), some_run()};
  return state;
}

// Only a holder without a command has a ttl.
void make_detached(Holder& holder) {
  holder.command = 0;
  holder.command_before = 0;
  holder.ttl = std::chrono::seconds(120);
}

// With every field that was added later as well.
State richest_state() {
  auto state = rich_state();
  state.waiters[1].supersedes = true;
  state.waiters[0].replaces = true;
  state.waiters[1].on_behalf_of = 12;
  state.answered.push_back({some_waiter(), {}, Superseded{"web3", 12}});
  state.holders[1].broken = true;
  state.holders[1].taken_by = Taker{"1000", "web2", true};
  make_detached(state.holders[1]);
  state.refused = 7;
  state.superseded = UINT64_MAX;
  return state;
}

TEST(State, a_lock_is_read_as_it_was_written) {
  EXPECT_TRUE(decoded(encoded(State{})) == State{});
  EXPECT_TRUE(decoded(encoded(rich_state())) == rich_state());
  EXPECT_TRUE(decoded(encoded(richest_state())) == richest_state());
}

// Each of them makes a separate list necessary, and the lists before it.
TEST(State, each_field_that_was_added_later_is_read_without_the_others) {
  const std::function<void(State&)> changes[] = {
      [](State& s) { s.waiters[1].supersedes = true; },
      [](State& s) { s.waiters[0].replaces = true; },
      [](State& s) {
        s.answered[0].newer = Superseded{"web3", 12};
      },
      [](State& s) {
        s.holders[1].taken_by = Taker{"1000", "web2", true};
      },
      [](State& s) { s.refused = 7; },
      [](State& s) { s.superseded = UINT64_MAX; },
      [](State& s) { s.waiters[1].on_behalf_of = 12; },
      [](State& s) { make_detached(s.holders[1]); }};
  for (const auto& change : changes) {
    auto state = rich_state();
    change(state);

    EXPECT_TRUE(decoded(encoded(state)) == state);
    EXPECT_FALSE(decoded(encoded(state) + "x"));
  }
}

// States that earlier versions have written can thus also be read.
TEST(State, only_superseding_and_replacing_waiters_need_extra_bytes) {
  auto state = rich_state();
  const auto before = encoded(state).size();

  state.waiters[0].replaces = true;

  EXPECT_EQ(encoded(state).size(), before + 4 * sizeof(std::uint32_t));
}

TEST(State, the_newest_fields_of_waiters_are_read_as_they_were_written) {
  State state;
  for (const int pid : {0, 7}) {
    auto& waiter = state.waiters.emplace_back();
    waiter.party.user = "0";
    waiter.on_behalf_of = pid;
    waiter.label = "deploy-" + std::to_string(pid);
    waiter.priority = pid - 5;
    waiter.spreads = pid != 0;
  }
  state.waiters.push_back(state.waiters[0]);
  state.waiters[2].label.clear();
  state.waiters[2].priority = 0;

  EXPECT_EQ(decoded(encoded(state)), state);
  state.waiters[0].priority = -21;
  EXPECT_EQ(decoded(encoded(state)), std::nullopt);
}

TEST(State, the_index_of_a_waiter_that_does_not_exist_is_refused) {
  auto state = rich_state();
  state.waiters[1].replaces = true;
  auto bytes = encoded(state);
  auto& index = bytes[bytes.size() - 2 * sizeof(std::uint32_t)];
  ASSERT_EQ(index, 1);

  index = 2;

  EXPECT_FALSE(decoded(bytes));
}

TEST(State, only_the_last_20_runs_are_kept) {
  State state;
  for (std::uint64_t fence = 1; fence <= 25; ++fence) {
    RunInfo run;
    run.fence.number = fence;
    record_past_run(state, run);
  }

  ASSERT_EQ(state.runs.size(), 20u);
  EXPECT_EQ(state.runs.front().fence.number, 25u);
  EXPECT_EQ(state.runs.back().fence.number, 6u);
}

TEST(State, the_ends_of_its_runs_fit_into_the_reserved_room) {
  for (const bool dedupes : {false, true}) {
    State before;
    before.holders = {Holder{}, Holder{}};
    before.waiters.assign(50, Waiter{});
    for (auto& waiter : before.waiters) {
      if (dedupes) waiter.dedupe = Dedupe{};
    }

    State after = before;
    for (auto& holder : after.holders) holder.ends_at = Clock::time_point{};
    after.last_run = after.past.last = after.past.last_success = longest_run();
    after.runs = {longest_run()};
    for (auto& waiter : after.waiters) {
      if (!dedupes) waiter.promised_until = Clock::time_point{};
      if (dedupes) after.answered.push_back({waiter, longest_run()});
    }
    if (dedupes) after.waiters.clear();

    EXPECT_LE(encoded(after).size(), encoded(before).size() + room_for_ends(before));
  }
}

TEST(State, who_took_the_lock_fits_into_the_reserved_room) {
  State before;
  before.holders.assign(2, Holder{});

  State after = before;
  for (auto& holder : after.holders) holder.taken_by = Taker{"1", std::string(64, 'h')};
  after.last_run = after.past.last = after.past.last_success = longest_run();
  after.runs = {longest_run()};

  EXPECT_LE(encoded(after).size(), encoded(before).size() + room_for_ends(before));
}

TEST(State, a_superseded_waiter_fits_into_the_reserved_room) {
  State before;
  before.waiters.assign(1, Waiter{});
  before.waiters[0].supersedes = true;

  State after = before;
  after.answered.push_back({after.waiters[0], {}, Superseded{std::string(64, 'h'), 1}});
  after.waiters.clear();

  EXPECT_LE(encoded(after).size(), encoded(before).size() + room_for_ends(before));
}

TEST(State, its_counts_fit_into_the_reserved_room) {
  const State before;

  State after;
  after.refused = after.superseded = UINT64_MAX;

  EXPECT_LE(encoded(after).size(), encoded(before).size() + room_for_ends(before));
}

TEST(State, values_out_of_range_are_refused) {
  const auto is_refused = [](const std::function<void(State&)>& change) {
    auto state = rich_state();
    change(state);
    return !decoded(encoded(state));
  };

  EXPECT_FALSE(is_refused([](State&) {}));
  EXPECT_TRUE(is_refused([](State& s) { s.last_fence.number = UINT64_MAX; }));
  EXPECT_TRUE(is_refused([](State& s) { s.slots = 0; }));
  EXPECT_TRUE(is_refused([](State& s) { s.used = WallTime::max(); }));
  EXPECT_TRUE(is_refused([](State& s) { s.used = WallTime(-1); }));
  EXPECT_TRUE(is_refused([](State& s) { s.holders[0].min_hold = milliseconds::max(); }));
  EXPECT_TRUE(is_refused([](State& s) { s.holders[0].party.pid = -1; }));
  EXPECT_TRUE(is_refused([](State& s) { s.waiters[1].on_behalf_of = -1; }));
  EXPECT_TRUE(is_refused([](State& s) { s.holders[0].party.session = 1; }));
  EXPECT_TRUE(is_refused(
      [](State& s) { s.holders[0].granted_at = Clock::time_point(nanoseconds(-1)); }));
  EXPECT_TRUE(
      is_refused([](State& s) { s.waiters[0].dedupe->window = -milliseconds(1); }));
  EXPECT_TRUE(is_refused([](State& s) { s.runs.resize(21); }));
}

TEST(State, every_truncation_is_refused) {
  const auto bytes = encoded(rich_state());

  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decoded(bytes.substr(0, size))) << size << " bytes";
  }
}

TEST(State, bytes_after_the_end_are_refused) {
  EXPECT_FALSE(decoded(encoded(rich_state()) + "x"));
}

TEST(State, an_unknown_mode_is_refused) {
  State state;
  state.waiters.emplace_back();
  auto bytes = encoded(state);
  // The mode is followed by two times, an absent promise, a flag, an absent dedupe, three
  // absent runs, and two counts of 4 bytes.
  bytes[bytes.size() - 31] = 2;

  EXPECT_FALSE(decoded(bytes));
}

TEST(State, an_impossible_count_of_holders_is_refused) {
  auto bytes = encoded(State{});
  // The count follows a fence, the slots and a time.
  std::memset(bytes.data() + 20, 0xFF, 4);

  EXPECT_FALSE(decoded(bytes));
}

// A reader that trusted a count would request more memory than there is, and throw.
TEST(State, a_wrong_count_or_length_does_not_exhaust_memory) {
  const auto bytes = encoded(rich_state());

  for (std::size_t at = 0; at + 4 <= bytes.size(); ++at) {
    auto lying = bytes;
    std::memset(lying.data() + at, 0xFF, 4);
    EXPECT_NO_THROW(decoded(lying)) << "at byte " << at;
  }
}

}  // namespace
}  // namespace dlock::record
