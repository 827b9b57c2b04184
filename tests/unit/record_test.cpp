// A value in a file of two halves: a read returns what was written, or nothing.

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "lock/store.hpp"
#include "record/states.hpp"
#include "rules/granting.hpp"
#include "rules/look.hpp"
#include "rules/state.hpp"
#include "rules/watches.hpp"
#include "store/local/record_file.hpp"
#include "tests/unit/setting.hpp"

namespace dlock::local {
namespace {

Moment some_moment() {
  return {Clock::time_point(nanoseconds(1'000'000)), WallTime(1'700'000'000'000'000)};
}

std::string file_with(std::string_view payload) {
  return record_file(*record_file_size(payload.size()), {payload, 7, some_moment(), 0});
}

// The bytes of a file after a writer, which may be killed before its last step.
enum class Killed { before_head, never };
std::string rewritten(std::string file, std::string_view payload, Killed killed) {
  const auto before = *record_in(file);
  const Record after{payload, before.sequence + 1, some_moment(), 1 - before.half};
  file.replace(half_begin(file.size(), after.half), payload.size(), payload);
  if (killed == Killed::never) {
    const auto head = record_head(after);
    file.replace(0, head.size(), head);
  }
  return file;
}

TEST(RecordTest, a_value_is_read_as_it_was_written) {
  const auto file = file_with("value");

  const auto record = record_in(file);

  ASSERT_TRUE(record);
  EXPECT_EQ(record->payload, "value");
  EXPECT_EQ(record->sequence, 7u);
  EXPECT_EQ(record->written.boot, some_moment().boot);
  EXPECT_EQ(record->written.wall, some_moment().wall);
}

TEST(RecordTest, a_newer_value_replaces_the_older_one) {
  auto file = rewritten(file_with("first"), "second", Killed::never);
  EXPECT_EQ(record_in(file)->payload, "second");

  file = rewritten(file, "third", Killed::never);
  EXPECT_EQ(record_in(file)->payload, "third");
  EXPECT_EQ(record_in(file)->sequence, 9u);
}

TEST(RecordTest, a_writer_that_is_killed_halfway_leaves_the_older_value) {
  const auto file = rewritten(file_with("first"), "second", Killed::before_head);

  EXPECT_EQ(record_in(file)->payload, "first");
}

TEST(RecordTest, a_flipped_bit_is_detected_and_the_older_value_is_not_used_instead) {
  auto file = rewritten(file_with("the older one"), "the newer one", Killed::never);
  const auto begin = half_begin(file.size(), 1);
  const auto is_in_use = [&](std::size_t at) {
    return at < record_head_size || (at >= begin && at < begin + 13);
  };

  for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
    const auto mask = static_cast<char>(1 << bit % 8);
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ mask);
    const auto record = record_in(file);
    EXPECT_EQ(!record, is_in_use(bit / 8)) << "bit " << bit;
    EXPECT_EQ(record ? record->payload : "the newer one", "the newer one");
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ mask);
  }
}

TEST(RecordTest, files_of_other_sizes_are_refused) {
  const auto file = file_with("value");
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, file.size() - 1}) {
    EXPECT_FALSE(record_in(file.substr(0, size))) << size;
  }
  EXPECT_FALSE(record_in(file + "x"));
  EXPECT_FALSE(is_record_file_size(std::uint64_t{10} << 30));
}

TEST(RecordTest, a_file_has_room_for_its_value_and_grows_with_it) {
  EXPECT_EQ(record_file_size(0), smallest_record_file);
  EXPECT_EQ(record_file_size(half_capacity(smallest_record_file)), smallest_record_file);
  EXPECT_EQ(record_file_size(half_capacity(smallest_record_file) + 1),
            2 * smallest_record_file);
  EXPECT_FALSE(record_file_size(half_capacity(largest_record_file) + 1));

  const std::string large(100'000, 'x');
  EXPECT_EQ(record_in(file_with(large))->payload, large);
}

TEST(RecordTest, a_name_is_read_as_it_was_written_and_an_invalid_one_is_refused) {
  const LockName name{"dlock", std::string(255, 'n')};
  const auto payload = with_name(name, "value");

  ASSERT_TRUE(named_in(payload));
  EXPECT_EQ(named_in(payload)->name, name);
  EXPECT_EQ(named_in(payload)->value, "value");
  EXPECT_FALSE(named_in(with_name({"", "name"}, "value")));
  EXPECT_FALSE(named_in(with_name({"dlock", "a\nb"}, "value")));
  for (std::size_t size = 0; size < 262; ++size) {
    EXPECT_FALSE(named_in(payload.substr(0, size))) << size;
  }
}

// Anyone with write access to the directory can write a state with a valid checksum.
class EverybodyIsAlive final : public Liveness {
 public:
  bool is_alive(const Holder& holder) const override {
    return holder.party.session % 2 == 0;
  }
  bool is_alive(const Waiter& waiter) const override {
    return waiter.party.session % 2 == 0;
  }
  bool is_stopped(const Waiter& waiter) const override { return waiter.passed_over; }
};

std::string forged_state(std::mt19937& random) {
  State state;
  state.last_fence.number = 5;
  state.slots = 3;
  for (int i = 0; i < 3; ++i) {
    auto& holder = state.holders.emplace_back();
    holder.party.host = "host";
    holder.argv = {"command", "argument"};
    holder.counts = true;
    holder.ends_at = Clock::time_point(nanoseconds(50));
    auto& waiter = state.waiters.emplace_back();
    waiter.party.token.bytes.fill(static_cast<std::uint8_t>(i));
    waiter.dedupe = Dedupe{milliseconds(5), false, false};
    waiter.promised_until = Clock::time_point(nanoseconds(70));
    state.runs.emplace_back().outcome = "ran";
  }
  state.past.last = state.runs[0];
  state.answered.push_back({state.waiters[0], state.runs[0]});
  auto bytes = encoded(state);
  std::uniform_int_distribution<std::size_t> where(0, bytes.size() - 1);
  constexpr int telling[] = {0, 1, 0x7F, 0x80, 0xFF};
  const auto changes = 1 + random() % 6;
  for (unsigned i = 0; i < changes; ++i) {
    const auto at = where(random);
    const auto length = std::min<std::size_t>(1 + random() % 9, bytes.size() - at);
    const int value =
        random() % 2 == 0 ? telling[random() % 5] : static_cast<int>(random() % 256);
    bytes.replace(at, length, length, static_cast<char>(value));
  }
  return bytes;
}

// With sanitizers, this also shows that nothing overflows and that no memory is read out
// of bounds.
TEST(RecordTest, the_rules_survive_any_forged_state) {
  std::mt19937 random(17);
  const EverybodyIsAlive liveness;
  const auto now = some_moment();
  Claim claim;
  claim.lock = {"dlock", "job"};
  claim.token.bytes.fill(1);
  claim.slots = 3;
  Party party;
  party.token = claim.token;
  std::uint64_t accepted = 0;
  const auto rounds = test_rounds() * 50;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    auto state = decoded(forged_state(random));
    if (!state) continue;
    ++accepted;
    Consequences consequences;
    const rules::Step step{*state, now, liveness, consequences};
    info_of(*state, claim.lock, now, liveness);
    runs_of_holders(*state, now, liveness);
    is_out_of_use(*state, now, liveness);
    rules::waits_for(*state, claim.token, now);
    ask(step, {claim, party, Queue::join});
    renew(step, claim.token, claim.ttl);
    break_leases(step, {Fence{6}}, {});
    release(step, claim.token, RunEnd{});
    tidy(step);
    encoded(*state);
  }
  EXPECT_GT(accepted, rounds / 10);
}

}  // namespace
}  // namespace dlock::local
