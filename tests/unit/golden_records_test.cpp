// The bytes of every record, with every field set and with none, as files and servers
// have them: what this version writes, others must read, and the other way round. A
// change here is a change of a format.

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "record/record_fields.hpp"
#include "record/run_lines.hpp"
#include "record/states.hpp"
#include "store/etcd/etcd_entry.hpp"
#include "store/etcd/etcd_runs.hpp"
#include "store/local/local_values.hpp"
#include "store/local/text_files.hpp"
#include "store/redis/records.hpp"
#include "store/redis/redis_store.hpp"
#include "store/redis/script_calls.hpp"
#include "util/json.hpp"
#include "util/process.hpp"
#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock {
namespace {

const LockName golden_lock{"some space", "job"};
constexpr WallTime golden_time{1'700'000'000'123'456};

std::string hex_of(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    const auto one = static_cast<std::uint8_t>(byte);
    text += hex(&one, 1);
  }
  return text;
}

// With the host, the user and the pid of this process in capitals.
std::string neutral(std::string text) {
  const auto replace = [&](const std::string& what, const std::string& by) {
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
      text.replace(at, what.size(), by);
      at += by.size();
    }
  };
  const auto key = [](const char* name, const std::string& value) {
    return "\"" + std::string(name) + "\":" + value;
  };
  const auto host = to_line(Json(host_name()));
  const auto user = to_line(Json(own_user()));
  replace(key("host", host), key("host", "HOST"));
  replace(key("taken_on", host), key("taken_on", "HOST"));
  replace(key("user", user), key("user", "USER"));
  replace(key("taken_by", user), key("taken_by", "USER"));
  replace(key("pid", std::to_string(::getpid()) + ","), key("pid", "PID,"));
  return text;
}

rules::Party golden_party(std::uint8_t number) {
  rules::Party party;
  party.token.bytes.fill(number);
  party.session = 70'000 + number;
  party.pid = 1234;
  party.pid_namespace = 4'026'531'836;
  party.user = "1000";
  party.host = "web1";
  return party;
}

rules::Holder golden_holder() {
  rules::Holder holder;
  holder.party = golden_party(1);
  holder.command = 4711;
  holder.command_after = 5;
  holder.command_before = 9;
  holder.mode = Mode::shared;
  holder.slot = 2;
  holder.fence.number = 1'700'000'000'000'000;
  holder.since = golden_time;
  holder.granted_at = Clock::time_point(nanoseconds(77));
  holder.ends_at = Clock::time_point(nanoseconds(88));
  holder.ttl = milliseconds(120'000);
  holder.label = "a\n\"b\"";
  holder.argv = {"sh", "", "\xff"};
  holder.counts = true;
  holder.min_hold = milliseconds(99);
  holder.for_pid = true;
  holder.ended = true;
  holder.broken = true;
  holder.taken_by = Taker{"1001", "web3", true, false};
  return holder;
}

rules::Waiter golden_waiter() {
  rules::Waiter waiter;
  waiter.party = golden_party(2);
  waiter.mode = Mode::shared;
  waiter.since = WallTime(3);
  waiter.queued_at = Clock::time_point(nanoseconds(99));
  waiter.promised_until = Clock::time_point(nanoseconds(111));
  waiter.passed_over = true;
  waiter.dedupe = Dedupe{milliseconds(3600), true, true};
  waiter.supersedes = true;
  waiter.replaces = true;
  waiter.on_behalf_of = 4712;
  return waiter;
}

RunInfo golden_run() {
  RunInfo run;
  run.fence.number = 17;
  run.started = golden_time;
  run.ended = golden_time + std::chrono::seconds(2);
  run.duration = milliseconds(2000);
  run.exit_code = 3;
  run.signal = "TERM";
  run.host = "web2";
  run.user = "1000";
  run.outcome = "lost";
  run.reason = "taken over";
  run.counts = true;
  return run;
}

rules::State golden_state() {
  rules::State state;
  state.last_fence = greatest_fence;
  state.slots = 3;
  state.used = golden_time;
  state.holders = {rules::Holder{}, golden_holder()};
  state.waiters = {rules::Waiter{}, golden_waiter()};
  state.last_run = golden_run();
  state.past.last = golden_run();
  state.past.last_success = RunInfo{};
  state.answered = {{rules::Waiter{}, RunInfo{}, std::nullopt},
                    {golden_waiter(), golden_run(), Superseded{"web4", 12}}};
  state.runs = {golden_run(), RunInfo{}};
  state.refused = 7;
  state.superseded = 8;
  return state;
}

rules::LimitState golden_limit() {
  rules::LimitState limit;
  limit.rate = {5, milliseconds(60'000)};
  limit.stamps = {Clock::time_point(nanoseconds(1)), Clock::time_point(nanoseconds(2))};
  limit.turns = {{golden_party(1).token, Clock::time_point(nanoseconds(3)), "web1", 12},
                 {golden_party(2).token, Clock::time_point(nanoseconds(4))}};
  return limit;
}

Event golden_event() {
  Event event;
  event.time = golden_time;
  event.kind = Event::Kind::released;
  event.lock = golden_lock;
  event.fence.number = 1'795'271'470'307'526;
  event.free = 3;
  event.host = "web\"1\"";
  event.pid = 12;
  event.user = "33";
  event.label = "a\nb";
  event.command = {"x", "", "\xff"};
  event.run = golden_run();
  event.taken_by = Taker{"33", "web5", true, true};
  return event;
}

Claim golden_claim() {
  Claim claim;
  claim.lock = golden_lock;
  claim.token = golden_party(1).token;
  claim.mode = Mode::shared;
  claim.slots = 3;
  claim.ttl = milliseconds(45'000);
  claim.lock_delay = milliseconds(50);
  claim.label = "a\n\"b\"";
  claim.command = {"sh", "", "\xff"};
  claim.outer_fences = {Fence{3}, Fence{4}};
  claim.dedupe = Dedupe{milliseconds(3600), true, false};
  claim.min_hold = milliseconds(99);
  claim.max_queue = 6;
  claim.supersedes = true;
  claim.replaces = true;
  claim.attached = false;
  claim.keeps_ttl = true;
  claim.on_behalf_of = 4712;
  claim.for_pid = true;
  return claim;
}

RunEnd golden_end() {
  RunEnd end;
  end.exit_code = 3;
  end.signal = "TERM";
  end.outcome = "lost";
  end.duration = milliseconds(2000);
  end.lost = Loss::taken_over;
  end.leaves_lease = true;
  end.is_shared = true;
  return end;
}

etcd::QueueEntry golden_entry() {
  auto entry = etcd::entry_for(golden_claim(), golden_time);
  entry.standing = etcd::Standing::broken;
  entry.slot = 2;
  entry.given_fence = Fence{18};
  entry.ttl = 45;
  entry.acquired_ttl = 46;
  entry.taken_by = own_taker(true);
  return entry;
}

std::string words_of(const std::vector<std::string>& arguments) {
  std::string text;
  for (const auto& argument : arguments) text += neutral(argument) + "|";
  return text;
}

TEST(GoldenRecords, the_state_of_a_lock_in_a_file) {
  EXPECT_EQ(
      hex_of(record::encoded(rules::State{})),
      "000000000000000001000000000000000000000000000000000000000000000000000000000000");
  EXPECT_EQ(
      hex_of(record::encoded(golden_state())),
      "ffffffffffff1f000300000040222018240a0600020000000000000000000000000000000000000000"
      "0000000000000000000000000000000000000000000000000000000000000000000000000000000000"
      "0000000000000000000000000000000000000000000000000000000000000000000000000000000000"
      "000000000000000000000000000000010101010101010101010101010101017111010000000000d204"
      "0000fcffffef00000000e8030000040000007765623167120000050000000000000009000000000000"
      "00010200000000401e18240a060040222018240a06004d000000000000000158000000000000000500"
      "0000610a226222030000000200000073680000000001000000ff016300000000000000010101020000"
      "0000000000000000000000000000000000000000000000000000000000000000000000000000000000"
      "0000000000000000000000000000000000000000000000000202020202020202020202020202020272"
      "11010000000000d2040000fcffffef00000000e8030000040000007765623101030000000000000063"
      "00000000000000016f000000000000000101100e000000000000010101110000000000000040222018"
      "240a060001c0a63e18240a060001d007000000000000010300000001040000005445524d0400000077"
      "656232040000006c6f73740a00000074616b656e206f76657204000000313030300101110000000000"
      "000040222018240a060001c0a63e18240a060001d00700000000000001030000000104000000544552"
      "4d0400000077656232040000006c6f73740a00000074616b656e206f76657204000000313030300101"
      "0000000000000000000000000000000000000000000000000000000000000000000000000002000000"
      "0000000000000000000000000000000000000000000000000000000000000000000000000000000000"
      "0000000000000000000000000000000000000000000000000000000000000000000000000000000000"
      "0000000000000000000000000000000000000002020202020202020202020202020202721101000000"
      "0000d2040000fcffffef00000000e80300000400000077656231010300000000000000630000000000"
      "0000016f000000000000000101100e0000000000000101110000000000000040222018240a060001c0"
      "a63e18240a060001d007000000000000010300000001040000005445524d0400000077656232040000"
      "006c6f73740a00000074616b656e206f76657204000000313030300102000000110000000000000040"
      "222018240a060001c0a63e18240a060001d007000000000000010300000001040000005445524d0400"
      "000077656232040000006c6f73740a00000074616b656e206f76657204000000313030300100000000"
      "0000000000000000000000000000000000000000000000000000000000000000000100000001000000"
      "0100000001000000010000000100000004000000776562340c0000000100000001000000e903000004"
      "000000776562330107000000000000000800000000000000010000000100000068120000");
}

TEST(GoldenRecords, fields_that_follow_the_state_only_if_they_are_not_empty) {
  const auto appended = [](const auto& change) {
    rules::State state;
    state.holders.resize(1);
    state.waiters.resize(1);
    state.answered.resize(1);
    const auto before = record::encoded(state).size();
    change(state);
    return hex_of(record::encoded(state).substr(before));
  };

  EXPECT_EQ(appended([](auto&) {}), "");
  EXPECT_EQ(appended([](auto& state) { state.waiters[0].supersedes = true; }),
            "01000000000000000000000000000000");
  EXPECT_EQ(appended([](auto& state) { state.waiters[0].replaces = true; }),
            "00000000010000000000000000000000");
  EXPECT_EQ(appended([](auto& state) {
              state.answered[0].newer = Superseded{"h", 1};
            }),
            "00000000000000000100000000000000010000006801000000");
  EXPECT_EQ(appended([](auto& state) { state.holders[0].taken_by = Taker{}; }),
            "0000000000000000000000000100000000000000000000000000000000");
  EXPECT_EQ(appended([](auto& state) { state.refused = 1; }),
            "0000000000000000000000000000000001000000000000000000000000000000");
  EXPECT_EQ(appended([](auto& state) { state.superseded = 1; }),
            "0000000000000000000000000000000000000000000000000100000000000000");
  EXPECT_EQ(appended([](auto& state) { state.waiters[0].on_behalf_of = 1; }),
            "0000000000000000000000000000000000000000000000000000000000000000010000000000"
            "000001000000");
  // The last entry of the waiter counts for earlier versions.
  EXPECT_EQ(appended([](auto& state) {
              state.waiters[0].label = "l";
              state.waiters[0].priority = -1;
            }),
            std::string(64, '0') +
                "0400000000000000010000000000"
                "00006cffffff00000000ff0000000000000000000000");
  // Where 0.2 expects the time before which a command started.
  EXPECT_EQ(appended([](auto& state) {
              state.holders[0].command = 0;
              state.holders[0].ttl = milliseconds(1);
            }),
            "");
}

TEST(GoldenRecords, a_limit_in_a_file) {
  EXPECT_EQ(hex_of(record::encoded(rules::LimitState{})),
            "0100000000000000e80300000000000000000000000000000000000000000000");
  EXPECT_EQ(hex_of(record::encoded(golden_limit())),
            "050000000000000060ea00000000000002000000000000000200000000000000010000000000"
            "0000020000000000000001010101010101010101010101010101030000000000000002020202"
            "02020202020202020202020204000000000000000c00000000000000");
}

TEST(GoldenRecords, a_run_in_the_log) {
  rules::Holder least;
  least.party.user = "0";  // a holder of this store always has a user's number

  EXPECT_EQ(record::start_line(golden_lock, golden_holder()),
            "{\"event\":\"start\",\"namespace\":\"some "
            "space\",\"name\":\"job\",\"fence\":1700000000000000,\"slot\":2,\"mode\":"
            "\"shared\",\"started\":\"2023-11-14T22:13:20.123Z\",\"host\":\"web1\","
            "\"pid\":1234,\"uid\":1000,\"label\":\"a\\n\\\"b\\\"\",\"counts\":true,"
            "\"command\":[\"sh\",\"\",\"\xEF\xBF\xBD\"],\"command_pid\":");
  EXPECT_EQ(record::start_line(golden_lock, least),
            "{\"event\":\"start\",\"namespace\":\"some "
            "space\",\"name\":\"job\",\"fence\":0,\"slot\":0,\"mode\":\"exclusive\","
            "\"started\":\"1970-01-01T00:00:00.000Z\",\"host\":\"\",\"pid\":0,\"uid\":0,"
            "\"label\":\"\",\"counts\":false,\"command\":[],\"command_pid\":");
  EXPECT_EQ(record::grant_line(golden_lock, golden_holder()),
            "{\"event\":\"acquire\",\"namespace\":\"some "
            "space\",\"name\":\"job\",\"fence\":1700000000000000,\"slot\":2,\"mode\":"
            "\"shared\",\"started\":\"2023-11-14T22:13:20.123Z\",\"host\":\"web1\","
            "\"pid\":1234,\"uid\":1000,\"label\":\"a\\n\\\"b\\\"\",\"counts\":true}");
  EXPECT_EQ(record::end_line(golden_lock, golden_run()),
            "{\"event\":\"end\",\"namespace\":\"some "
            "space\",\"name\":\"job\",\"fence\":17,\"started\":\"2023-11-14T22:13:20."
            "123Z\",\"ended\":\"2023-11-14T22:13:22.123Z\",\"duration_ms\":2000,\"exit_"
            "code\":3,\"signal\":\"TERM\",\"host\":\"web2\",\"uid\":1000,\"outcome\":"
            "\"lost\",\"reason\":\"taken over\",\"counts\":true}");
  EXPECT_EQ(record::end_line(golden_lock, {}),
            "{\"event\":\"end\",\"namespace\":\"some "
            "space\",\"name\":\"job\",\"fence\":0,\"started\":\"1970-01-01T00:00:00."
            "000Z\",\"ended\":null,\"duration_ms\":null,\"exit_code\":null,\"signal\":"
            "null,\"host\":\"\",\"outcome\":\"\",\"counts\":false}");
  EXPECT_EQ(record::end_line(golden_lock, record::never_started_run(golden_holder())),
            "{\"event\":\"end\",\"namespace\":\"some "
            "space\",\"name\":\"job\",\"fence\":1700000000000000,\"started\":\"2023-11-"
            "14T22:13:20.123Z\",\"ended\":null,\"duration_ms\":null,\"exit_code\":null,"
            "\"signal\":null,\"host\":\"web1\",\"uid\":1000,\"outcome\":\"not-started\","
            "\"counts\":false}");
}

TEST(GoldenRecords, an_event_in_a_file) {
  EXPECT_EQ(
      record::line_of(golden_event()),
      "{\"time\":1700000000123456,\"event\":\"released\",\"namespace\":\"some "
      "space\",\"name\":\"job\",\"fence\":1795271470307526,\"free\":3,\"host\":"
      "\"web\\\"1\\\"\",\"pid\":12,\"user\":\"33\",\"label\":\"a\\nb\",\"command\":["
      "\"x\",\"\",\"\xEF\xBF\xBD\"],\"outcome\":\"lost\",\"duration_ms\":2000,\"exit_"
      "code\":3,\"signal\":\"TERM\",\"reason\":\"taken "
      "over\",\"taken_by\":{\"user\":\"33\",\"host\":\"web5\",\"replaces\":true}}\n");
  Event least;
  EXPECT_EQ(record::line_of(least),
            "{\"time\":0,\"event\":\"granted\",\"namespace\":\"\",\"name\":\"\","
            "\"fence\":0,\"free\":0,\"host\":\"\",\"pid\":0,\"user\":\"\",\"label\":\"\","
            "\"command\":[]}\n");
  least.run.emplace();
  EXPECT_EQ(record::line_of(least),
            "{\"time\":0,\"event\":\"granted\",\"namespace\":\"\",\"name\":\"\","
            "\"fence\":0,\"free\":0,\"host\":\"\",\"pid\":0,\"user\":\"\",\"label\":\"\","
            "\"command\":[],\"outcome\":\"\",\"duration_ms\":0}\n");
}

TEST(GoldenRecords, registers_and_values_in_files) {
  EXPECT_EQ(local::registers_text({}), "sum 2d06800538d394c2\n");
  EXPECT_EQ(
      local::registers_text({{golden_lock, Fence{5}}, {{"d", "\xc3\xa9"}, Fence{6}}}),
      "d %C3%A9 6\nsome%20space job 5\nsum 9990f6928470cbcc\n");
  EXPECT_EQ(local::value_line({}, ""), "dlock-value-1  0 0   0 7618b926327d895f\n");
  EXPECT_EQ(local::value_line({"boot", Clock::time_point(nanoseconds(7)),
                               Clock::time_point(nanoseconds(8)), golden_lock, 3},
                              "abc"),
            "dlock-value-1 boot 7 8 some%20space job 3 7efdd79336b6114e\n");
}

TEST(GoldenRecords, the_parties_of_a_lock_on_a_redis_server) {
  EXPECT_EQ(neutral(redis::party_text(golden_claim())),
            "{\"host\":HOST,\"pid\":4712,\"for_pid\":true,\"ttl_ms\":45000,\"user\":USER,"
            "\"command\":[\"sh\",\"\",\"\xEF\xBF\xBD\"],\"label\":\"a\\n\\\"b\\\"\"}");
  EXPECT_EQ(neutral(redis::party_text({})),
            "{\"host\":HOST,\"pid\":PID,\"user\":USER,\"command\":[]}");
  EXPECT_EQ(neutral(redis::taker_text()), "{\"host\":HOST,\"user\":USER}");
}

TEST(GoldenRecords, the_end_of_a_run_on_a_redis_server) {
  EXPECT_EQ(redis::run_end_text(golden_end(), "web2", "joe"),
            "{\"host\":\"web2\",\"user\":\"joe\",\"outcome\":\"lost\",\"duration_ms\":"
            "2000,\"exit_code\":3,\"signal\":\"TERM\",\"reason\":\"taken over\"}");
  EXPECT_EQ(redis::run_end_text({}, "", ""),
            "{\"host\":\"\",\"user\":\"\",\"outcome\":\"\",\"duration_ms\":0}");
}

TEST(GoldenRecords, the_arguments_of_the_scripts) {
  using namespace redis;
  const auto full = golden_claim();
  const Claim least;

  EXPECT_EQ(words_of(ask_arguments(full, Queue::join, "w", 5, {}, {})),
            "01010101010101010101010101010101|w|sdnr|3|45050|1 "
            "6|{\"host\":HOST,\"pid\":4712,\"for_pid\":true,\"ttl_ms\":45000,\"user\":"
            "USER,\"command\":[\"sh\",\"\",\"\xEF\xBF\xBD\"],\"label\":\"a\\n\\\"b\\\"\"}"
            "|3600 1|5|0|3|4|");
  EXPECT_EQ(words_of(ask_arguments(least, Queue::stay_out, "w", 0, Fence{9}, {})),
            "00000000000000000000000000000000|w|x|1|30000|0|{\"host\":HOST,\"pid\":PID,"
            "\"user\":USER,\"command\":[]}||0|9|");
  EXPECT_EQ(words_of(release_arguments(full, golden_end(), "w", Fence{9}, true)),
            "01010101010101010101010101010101|w|{\"host\":HOST,\"user\":USER,"
            "\"label\":\"a\\n\\\"b\\\"\",\"outcome\":"
            "\"lost\",\"duration_ms\":2000,\"exit_code\":3,\"signal\":\"TERM\","
            "\"reason\":\"taken "
            "over\"}|120000|none|99|1|9|{\"host\":HOST,\"pid\":4712,\"for_pid\":true,"
            "\"ttl_ms\":45000,\"user\":USER,\"command\":[\"sh\",\"\",\"\xEF\xBF\xBD\"],"
            "\"label\":\"a\\n\\\"b\\\"\"}|1|");
  EXPECT_EQ(words_of(release_arguments(least, std::nullopt, "w", {}, false)),
            "00000000000000000000000000000000|w||0|none|0|0|0|");
  EXPECT_EQ(words_of(revoke_arguments(full, "w", Fence{9})),
            "01010101010101010101010101010101|w||0|none|0|v|9|");
  EXPECT_EQ(words_of(renew_arguments(full, Fence{9})),
            "01010101010101010101010101010101|45000|1|");
  EXPECT_EQ(words_of(renew_arguments(least, Fence{9})),
            "00000000000000000000000000000000|9|30000|");
  EXPECT_EQ(words_of(reclaim_arguments(full, {}, "7:0101010101010101")),
            "01010101010101010101010101010101|0|45050|s|3|0|{\"host\":HOST,\"pid\":4712,"
            "\"for_pid\":true,\"ttl_ms\":45000,\"user\":USER,\"command\":[\"sh\",\"\","
            "\"\xEF\xBF\xBD\"],\"label\":\"a\\n\\\"b\\\"\"}|7:0101010101010101|");
}

TEST(GoldenRecords, a_turn_of_a_limit_on_a_redis_server) {
  RateClaim claim;
  claim.token = golden_party(1).token;
  claim.host = "web 1";
  claim.pid = 12;

  EXPECT_EQ(redis::member_of(claim), "01010101010101010101010101010101 12 web%201");
}

TEST(GoldenRecords, an_entry_in_etcd) {
  EXPECT_EQ(neutral(etcd::text_of(golden_entry())),
            "{\"standing\":\"broken\",\"mode\":\"shared\",\"slots\":3,\"slot\":2,"
            "\"fence\":18,\"since\":1700000000123456,\"ttl\":45,\"acquired_ttl\":46,"
            "\"detached\":true,\"for_pid\":true,\"supersedes\":true,\"replaces\":true,"
            "\"dedupe\":\"success\",\"window_ms\":3600,\"host\":HOST,\"pid\":4712,"
            "\"user\":USER,\"label\":\"a\\n\\\"b\\\"\",\"command\":[\"sh\",\"\","
            "\"\xEF\xBF\xBD\"],\"taken_by\":USER,\"taken_on\":HOST,\"replaced\":true}");
  EXPECT_EQ(etcd::text_of(etcd::QueueEntry{}),
            "{\"standing\":\"waits\",\"mode\":\"exclusive\",\"since\":0,\"ttl\":0,"
            "\"host\":\"\",\"pid\":0,\"user\":\"\",\"command\":[]}");
}

TEST(GoldenRecords, a_run_in_etcd) {
  EXPECT_EQ(neutral(etcd::open_run_text(golden_entry(), golden_time)),
            "{\"fence\":18,\"started\":1700000000123456,\"host\":HOST,\"user\":USER,"
            "\"label\":\"a\\n\\\"b\\\"\",\"detached\":true,\"until\":1700000000123456}");
  EXPECT_EQ(etcd::open_run_text({}, {}),
            "{\"fence\":0,\"started\":0,\"host\":\"\",\"user\":\"\",\"counts\":true}");
  EXPECT_EQ(etcd::past_run_text(golden_run(), true),
            "{\"fence\":17,\"started\":1700000000123456,\"host\":\"web2\",\"user\":"
            "\"1000\",\"counts\":true,\"ended\":1700000002123456,\"duration_ms\":2000,"
            "\"exit_code\":3,\"signal\":\"TERM\",\"outcome\":\"lost\",\"reason\":\"taken "
            "over\",\"shared\":true}");
  EXPECT_EQ(etcd::past_run_text({}, false),
            "{\"fence\":0,\"started\":0,\"host\":\"\",\"user\":\"\",\"outcome\":\"\"}");
  EXPECT_EQ(etcd::told_text({"web4", 12}), "{\"host\":\"web4\",\"pid\":12}");
  EXPECT_EQ(etcd::taken_text({"joe", "web5", true, true}),
            "{\"user\":\"joe\",\"host\":\"web5\",\"replaced\":true,\"forced\":true}");
  EXPECT_EQ(etcd::taken_text({}), "{\"user\":\"\",\"host\":\"\"}");
}

}  // namespace
}  // namespace dlock
