// The bytes of every record, with every field set and with none, as files and servers
// have them: what this version writes, others must read, and the other way round. They
// are in golden_records.inc: a change there is a change of a format.

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <sstream>
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

// With the host, the user and the pid of this process in capitals, in one line.
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
  replace("\n", "<LF>");
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
  for (const auto& argument : arguments) text += argument + "|";
  return text;
}

// By their titles.
std::map<std::string, std::string> records_as_they_were() {
  std::istringstream lines(
#include "tests/unit/golden_records.inc"
  );
  std::map<std::string, std::string> records;
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(": ");
    if (colon != std::string::npos)
      records[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return records;
}

TEST(GoldenRecords, are_as_they_were) {
  rules::Holder of_root;
  of_root.party.user = "0";  // a holder of this store always has a user's number
  Event event_of_least_run;
  event_of_least_run.run.emplace();
  RateClaim turn;
  turn.token = golden_party(1).token;
  turn.host = "web 1";
  turn.pid = 12;
  const std::pair<const char*, std::string> records[] = {
      {"state of a lock, least", hex_of(record::encoded(rules::State{}))},
      {"state of a lock", hex_of(record::encoded(golden_state()))},
      {"limit, least", hex_of(record::encoded(rules::LimitState{}))},
      {"limit", hex_of(record::encoded(golden_limit()))},
      {"start in the log", record::start_line(golden_lock, golden_holder())},
      {"start in the log, least", record::start_line(golden_lock, of_root)},
      {"grant in the log", record::grant_line(golden_lock, golden_holder())},
      {"end in the log", record::end_line(golden_lock, golden_run())},
      {"end in the log, least", record::end_line(golden_lock, {})},
      {"end in the log of a command that never started",
       record::end_line(golden_lock, record::never_started_run(golden_holder()))},
      {"event in a file", record::line_of(golden_event())},
      {"event in a file, least", record::line_of(Event())},
      {"event in a file of the least run", record::line_of(event_of_least_run)},
      {"registers in a file, none", local::registers_text({})},
      {"registers in a file",
       local::registers_text({{golden_lock, Fence{5}}, {{"d", "\xc3\xa9"}, Fence{6}}})},
      {"value in a file, least", local::value_line({}, "")},
      {"value in a file",
       local::value_line({"boot", Clock::time_point(nanoseconds(7)),
                          Clock::time_point(nanoseconds(8)), golden_lock, 3},
                         "abc")},
      {"party on redis", redis::party_text(golden_claim())},
      {"party on redis, least", redis::party_text({})},
      {"taker on redis", redis::taker_text()},
      {"end on redis", redis::run_end_text(golden_end(), "web2", "joe")},
      {"end on redis, least", redis::run_end_text({}, "", "")},
      {"arguments of ask",
       words_of(redis::ask_arguments(golden_claim(), Queue::join, "w", 5, {}, {}))},
      {"arguments of ask, least",
       words_of(redis::ask_arguments(Claim(), Queue::stay_out, "w", 0, Fence{9}, {}))},
      {"arguments of release", words_of(redis::release_arguments(
                                   golden_claim(), golden_end(), "w", Fence{9}, true))},
      {"arguments of release, least",
       words_of(redis::release_arguments(Claim(), std::nullopt, "w", {}, false))},
      {"arguments of revoke",
       words_of(redis::revoke_arguments(golden_claim(), "w", Fence{9}))},
      {"arguments of renew", words_of(redis::renew_arguments(golden_claim(), Fence{9}))},
      {"arguments of renew, least", words_of(redis::renew_arguments(Claim(), Fence{9}))},
      {"arguments of reclaim",
       words_of(redis::reclaim_arguments(golden_claim(), {}, "7:0101010101010101"))},
      {"turn of a limit on redis", redis::member_of(turn)},
      {"entry in etcd", etcd::text_of(golden_entry())},
      {"entry in etcd, least", etcd::text_of(etcd::QueueEntry{})},
      {"open run in etcd", etcd::open_run_text(golden_entry(), golden_time)},
      {"open run in etcd, least", etcd::open_run_text({}, {})},
      {"past run in etcd", etcd::past_run_text(golden_run(), true)},
      {"past run in etcd, least", etcd::past_run_text({}, false)},
      {"newer claim in etcd", etcd::told_text({"web4", 12})},
      {"taker in etcd", etcd::taken_text({"joe", "web5", true, true})},
      {"taker in etcd, least", etcd::taken_text({})}};
  auto before = records_as_they_were();
  EXPECT_EQ(before.size(), std::size(records));
  for (const auto& [title, bytes] : records) {
    EXPECT_EQ(neutral(bytes), before[title]) << title;
  }
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
  EXPECT_EQ(appended([](auto& state) {
              state.waiters[0].label = "l";
              state.waiters[0].priority = -1;
            }),
            std::string(64, '0') +
                "00000000010000000000000001000000"
                "6c0100000000000000ffffffff00000000");
  // Where 0.2 expects the time before which a command started.
  EXPECT_EQ(appended([](auto& state) {
              state.holders[0].command = 0;
              state.holders[0].ttl = milliseconds(1);
            }),
            "");
}

}  // namespace
}  // namespace dlock
