// The records of a lock on a server, parsed from text that anyone may have written.

#include <gtest/gtest.h>

#include "store/redis/records.hpp"
#include "store/redis/reply.hpp"
#include "store/redis/script_calls.hpp"

namespace dlock::redis {
namespace {

constexpr WallTime now{1'700'000'000'000'000};

Reply string_of(const std::string& text) {
  Reply reply;
  reply.kind = Reply::Kind::string;
  reply.text = text;
  return reply;
}
Reply number_of(std::int64_t number) {
  Reply reply;
  reply.kind = Reply::Kind::integer;
  reply.integer = number;
  return reply;
}
Reply array_of(std::vector<Reply> elements) {
  Reply reply;
  reply.kind = Reply::Kind::array;
  reply.elements = std::move(elements);
  return reply;
}
Reply error_of(const std::string& text) {
  Reply reply;
  reply.kind = Reply::Kind::error;
  reply.text = text;
  return reply;
}

const std::string info =
    R"({"host":"web1","pid":77,"user":"eve","command":["a","b c"],"label":"nightly"})";
const std::string held = "x 2 42 1699999999000000 1700000030000000 h " + info;

// Histories

Reply history_reply(std::vector<Reply> holders, std::vector<Reply> runs) {
  return array_of({string_of(std::to_string(now.count())), array_of(std::move(holders)),
                   array_of(std::move(runs))});
}

std::optional<std::vector<RunInfo>> history_in(const Reply& reply) {
  auto history = history_from(reply, {"dlock", "job"});
  return history ? std::optional(std::move(history->runs)) : std::nullopt;
}

const std::string ended_run =
    R"(41 1699999990000000 1699999991000000 {"host":"web2","outcome":"ran","exit_code":3})";
const std::string vanished_run = "40 1699999980000000 0 " + info;

TEST(RedisHistories, holders_and_past_runs_are_listed_newest_start_first) {
  const auto runs = history_in(history_reply(
      {string_of(held), number_of(5)}, {string_of(vanished_run), string_of(ended_run)}));

  ASSERT_TRUE(runs);
  ASSERT_EQ(runs->size(), 3u);
  EXPECT_EQ(runs->at(0).outcome, "running");
  EXPECT_EQ(runs->at(0).duration, milliseconds(1000));
  EXPECT_EQ(runs->at(1).exit_code, 3);
  EXPECT_EQ(runs->at(2).outcome, "vanished");
}

TEST(RedisHistories, a_detached_lease_is_by_hand_while_it_holds_and_after_it_has_ended) {
  auto record = held;
  record.replace(record.find(" h "), 3, " d ");

  const auto runs = history_in(
      history_reply({string_of(record), number_of(5)},
                    {string_of("40 1699999980000000 1699999980250000 h " + info)}));

  ASSERT_EQ(runs->size(), 2u);
  EXPECT_EQ(runs->at(0).outcome, "by hand");
  EXPECT_FALSE(runs->at(0).ended);
  EXPECT_EQ(runs->at(0).duration, milliseconds(1000));
  EXPECT_EQ(runs->at(1).outcome, "by hand");
  EXPECT_EQ(runs->at(1).duration, milliseconds(250));
  EXPECT_EQ(runs->at(1).host, "web1");
  EXPECT_EQ(runs->at(1).user, "eve");
}

TEST(RedisHistories, foreign_and_ended_holders_are_not_runs) {
  auto record = held;
  record.replace(record.find(" h "), 3, " e ");
  EXPECT_TRUE(history_in(history_reply({string_of(record), number_of(5)}, {}))->empty());
  EXPECT_TRUE(
      history_in(history_reply({string_of("foreign"), number_of(5)}, {}))->empty());
}

TEST(RedisHistories, damaged_records_are_counted_and_hide_no_other) {
  const auto history = history_from(
      history_reply({}, {string_of("nonsense"), string_of(ended_run)}), {"dlock", "job"});

  ASSERT_TRUE(history);
  EXPECT_EQ(history->damaged, 1U);
  EXPECT_EQ(history->runs.size(), 1U);
}

TEST(RedisHistories, a_malformed_history_is_refused) {
  EXPECT_FALSE(history_in(string_of("OK")));
  EXPECT_FALSE(history_in(history_reply({string_of(held)}, {})));
  auto without_time = history_reply({}, {});
  without_time.elements[0] = string_of("now");
  EXPECT_FALSE(history_in(without_time));
  auto no_array = history_reply({}, {});
  no_array.elements[2] = string_of("");
  EXPECT_FALSE(history_in(no_array));
}

// Keys

TEST(RedisKeys, plain_names_are_not_encoded) {
  EXPECT_EQ(key_of({"dlock", "nightly-job"}), "dlock:{nightly-job}");
}

TEST(RedisKeys, a_key_decodes_to_its_lock_and_no_other) {
  const std::string names[] = {"a",   "{a}", "a}{b", "}",  "{",  "%", "%7B", "a:b",
                               "a b", "*",   "[a]",  "\\", ":w", "é", "a}:s"};
  for (const auto& name_space : names) {
    for (const auto& name : names) {
      const LockName lock{name_space, name};

      EXPECT_EQ(lock_of(key_of(lock)), lock) << key_of(lock);
      EXPECT_EQ(lock_of(key_of(lock) + ":h"), lock);
    }
  }
}

TEST(RedisKeys, other_keys_belong_to_no_lock) {
  for (const auto* key : {"", "dlock", "dlock:job", "dlock:{job", "dlock:{job}x",
                          "dlock:{}", "dlock:{job}:limit", "dlock:{job}:limit:stamps",
                          "dlock:{jo b}", "dlock:{jo%2zb}"}) {
    EXPECT_FALSE(lock_of(key)) << key;
  }
}

// Holders, waiters, runs

TEST(RedisRecords, every_field_of_a_holder_is_read) {
  const auto holders = holders_from(array_of({string_of(held), number_of(1234)}), now);

  ASSERT_TRUE(holders);
  const auto& holder = holders->at(0);
  EXPECT_EQ(holder.fence.number, 42u);
  EXPECT_EQ(holder.slot, 2u);
  EXPECT_EQ(holder.host, "web1");
  EXPECT_EQ(holder.pid, 77);
  EXPECT_EQ(holder.user, "eve");
  EXPECT_EQ(holder.command, (std::vector<std::string>{"a", "b c"}));
  EXPECT_EQ(holder.label, "nightly");
  EXPECT_EQ(holder.held, milliseconds(1000));
  EXPECT_EQ(holder.expires_in, milliseconds(1234));
  EXPECT_FALSE(holder.foreign);
  EXPECT_FALSE(holder.run_ended);
  EXPECT_TRUE(holder.attached);
}

TEST(RedisRecords, it_is_known_whether_a_holder_is_attached_or_has_ended) {
  const auto holder_with = [](const std::string& state) {
    const auto record = "x 0 42 1 2 " + state + " " + info;
    return holders_from(array_of({string_of(record), number_of(1)}), now)->at(0);
  };
  EXPECT_TRUE(holder_with("h").attached);
  EXPECT_FALSE(holder_with("h").run_ended);
  EXPECT_FALSE(holder_with("d").attached);
  EXPECT_FALSE(holder_with("d").run_ended);
  EXPECT_TRUE(holder_with("e").run_ended);
  EXPECT_FALSE(holder_with("e").attached);
}

TEST(RedisRecords, only_the_expiry_of_a_foreign_holder_can_be_known) {
  const auto holders = holders_from(array_of({string_of("foreign"), number_of(-1)}), now);

  ASSERT_TRUE(holders);
  EXPECT_TRUE(holders->at(0).foreign);
  EXPECT_FALSE(holders->at(0).expires_in);
}

TEST(RedisRecords, a_malformed_holder_is_refused) {
  for (const auto& record :
       {std::string(""), std::string("x"), "y" + held.substr(1), "x -2" + held.substr(3),
        "x 2 1e9" + held.substr(6), std::string("x 2 42 1 99999999999999999999 h {}"),
        std::string("x 2 42 1 2 p {}")}) {
    EXPECT_FALSE(holders_from(array_of({string_of(record), number_of(1)}), now))
        << record;
  }
  EXPECT_FALSE(holders_from(array_of({string_of(held)}), now));
  EXPECT_FALSE(holders_from(string_of(held), now));
  EXPECT_FALSE(holders_from(array_of({string_of(held), string_of("1")}), now));
}

TEST(RedisRecords, a_holder_without_valid_details_is_still_a_holder) {
  for (const auto* text : {"", "{", "[]", R"({"host":1,"pid":"x","command":{"a":1}})",
                           R"({"pid":-5})", R"({"pid":99999999999})"}) {
    const auto holders = holders_from(
        array_of({string_of(std::string("s 0 1 2 3 h ") + text), number_of(1)}), now);

    ASSERT_TRUE(holders) << text;
    EXPECT_EQ(holders->at(0).pid, 0);
    EXPECT_EQ(holders->at(0).host, "");
  }
}

TEST(RedisRecords, holders_come_in_the_order_of_their_grants) {
  const auto holders = holders_from(array_of({string_of("s 0 9 1 2 h {}"), number_of(1),
                                              string_of("s 0 7 1 2 h {}"), number_of(1)}),
                                    now);

  ASSERT_TRUE(holders);
  EXPECT_EQ(holders->at(0).fence.number, 7u);
}

TEST(RedisRecords, every_field_of_a_waiter_is_read) {
  const auto waiter =
      waiter_from("s 1699999998500000 1700000090000000 0 30000 00ff " + info, now);

  ASSERT_TRUE(waiter);
  EXPECT_EQ(waiter->host, "web1");
  EXPECT_EQ(waiter->waiting, milliseconds(1500));
}

TEST(RedisRecords, every_field_of_a_run_is_read) {
  const auto run = run_from(
      "42 1700000000000000 1700000003000000 "
      R"({"host":"web1","outcome":"ran","duration_ms":3000,"exit_code":3})");

  ASSERT_TRUE(run);
  EXPECT_EQ(run->fence.number, 42u);
  EXPECT_EQ(run->duration, milliseconds(3000));
  EXPECT_EQ(run->exit_code, 3);
  EXPECT_EQ(run->outcome, "ran");
  EXPECT_TRUE(run->ended);
  // Whatever its record says, one without an end has vanished, and no other is running.
  const auto without_end = run_from("42 1700000000000000 0 " + info).value();
  EXPECT_EQ(without_end.outcome, "vanished");
  EXPECT_EQ(without_end.host, "web1");
  EXPECT_FALSE(without_end.ended);
  EXPECT_EQ(run_from("42 1000000 3000000 {\"outcome\":\"running\"}").value().outcome,
            "vanished");
}

TEST(RedisRecords, a_run_whose_lock_was_freed_by_force_is_lost) {
  const std::string by = R"("forced_by":{"host":"web9","user":"ro\"ot"})";

  auto run =
      run_from("42 1000000 3000000 {\"host\":\"web1\",\"user\":\"eve\"," + by + "}");

  ASSERT_TRUE(run);
  EXPECT_EQ(run->outcome, "lost");
  EXPECT_EQ(run->reason, "broken by force by ro\"ot@web9");
  EXPECT_EQ(run->host, "web1");
  EXPECT_EQ(run->duration, std::chrono::seconds(2));
  run = run_from("42 1000000 3000000 {\"outcome\":\"lost\",\"reason\":\"unconfirmed\"," +
                 by + ",\"exit_code\":76}");
  ASSERT_TRUE(run);
  EXPECT_EQ(run->exit_code, 76);
  EXPECT_EQ(run->reason, "broken by force by ro\"ot@web9");
}

TEST(RedisRecords, the_end_of_a_run_is_read_as_it_was_written) {
  RunEnd end;
  end.signal = "TERM";
  end.outcome = "ran";
  end.duration = milliseconds(17);

  const auto run = run_from("1 2 3 " + run_end_text(end, "web1", "eve"));

  ASSERT_TRUE(run);
  EXPECT_EQ(run->signal, "TERM");
  EXPECT_EQ(run->exit_code, std::nullopt);
  EXPECT_EQ(run->duration, milliseconds(17));
  EXPECT_EQ(run->host, "web1");
  EXPECT_EQ(run->user, "eve");
}

// The whole lock

Reply lock_reply(std::vector<Reply> holders) {
  return array_of({string_of("1700000000000000"), number_of(3),
                   array_of(std::move(holders)), array_of({}), string_of(""),
                   string_of(""), number_of(1), number_of(6), number_of(4), string_of(""),
                   string_of("")});
}

TEST(RedisRecords, every_field_of_a_lock_is_read) {
  const auto lock =
      lock_from(lock_reply({string_of(held), number_of(5)}), {"dlock", "job"});

  ASSERT_TRUE(lock);
  EXPECT_EQ(lock->slots, 3u);
  EXPECT_EQ(lock->free, 2u);
  EXPECT_EQ(lock->mode, Mode::exclusive);
  EXPECT_FALSE(lock->last_run);
  EXPECT_EQ(lock->refused, 6u);
  EXPECT_EQ(lock->superseded, 4u);
}

TEST(RedisRecords, a_lock_is_read_with_its_last_success_and_may_be_free) {
  auto reply = lock_reply({});
  reply.elements[5] =
      string_of(R"(41 1 1000000 {"host":"web2","outcome":"ran","exit_code":0})");

  const auto lock = lock_from(reply, {"dlock", "job"});

  ASSERT_TRUE(lock);
  EXPECT_EQ(lock->last_success->fence.number, 41u);
  EXPECT_FALSE(lock->past.last_success);
  EXPECT_TRUE(lock->known);
  EXPECT_EQ(lock->now, now);
  EXPECT_EQ(lock->slots, 1u);
  EXPECT_EQ(lock->free, 1u);
  reply.elements[6] = number_of(0);
  EXPECT_FALSE(lock_from(reply, {"dlock", "job"})->known);
}

TEST(RedisRecords, a_malformed_lock_is_refused) {
  auto reply = lock_reply({});
  for (std::size_t i = 0; i < reply.elements.size(); ++i) {
    auto broken = reply;
    broken.elements[i] = i == 0 ? string_of("now") : error_of("x");
    EXPECT_TRUE(i == 4 || i > 8 || !lock_from(broken, {"dlock", "job"})) << i;
    broken = reply;
    broken.elements.erase(broken.elements.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(lock_from(broken, {"dlock", "job"})) << i;
  }
  reply.elements[8] = number_of(-1);
  EXPECT_FALSE(lock_from(reply, {"dlock", "job"}));
  EXPECT_FALSE(lock_from(number_of(1), {"dlock", "job"}));
}

// Errors

TEST(RedisErrors, each_error_maps_to_what_the_caller_can_do) {
  using Kind = Failure::Kind;
  const std::pair<const char*, Kind> cases[] = {
      {"NOAUTH Authentication required.", Kind::rejected},
      {"ERR Protocol error: unauthenticated multibulk length", Kind::rejected},
      {"ERR Protocol error: unauthenticated bulk length", Kind::rejected},
      {"WRONGPASS invalid username-password pair or user is disabled.", Kind::rejected},
      {"NOPERM this user has no permissions to run the 'evalsha' command",
       Kind::rejected},
      {"ERR The user executing the script can't run this command or subcommand",
       Kind::rejected},
      {"ERR The user executing the script can't access at least one of the keys",
       Kind::rejected},
      {"ERR ACL failure in script: User x has no permissions to run the 'time' command",
       Kind::rejected},
      {"ERR Error running script: @user_script: 3: WRONGTYPE Operation against a key",
       Kind::misconfigured},
      {"MOVED 1234 10.0.0.1:6379", Kind::misconfigured},
      {"ERR unknown command 'EVALSHA', with args beginning with:", Kind::misconfigured},
      {"LOADING Redis is loading the dataset in memory", Kind::unreachable},
      {"BUSY Redis is busy running a script.", Kind::unreachable},
      {"READONLY You can't write against a read only replica.", Kind::unreachable},
      {"OOM command not allowed when used memory > 'maxmemory'.", Kind::unreachable},
      {"NOREPLICAS Not enough good replicas to write.", Kind::unreachable},
      {"MISCONF Redis is configured to save RDB snapshots", Kind::unreachable},
      {"CLUSTERDOWN Hash slot not served", Kind::unreachable},
      {"ERR something else", Kind::unreachable},
      {"", Kind::unreachable},
  };
  for (const auto& [text, kind] : cases) {
    EXPECT_EQ(failure_from(error_of(text), "server").kind(), kind) << text;
  }
}

TEST(RedisErrors, of_a_script_say_what_they_mean_and_nothing_of_the_script) {
  const std::pair<const char*, const char*> cases[] = {
      {"OOM command not allowed when used memory > 'maxmemory'. script: 4bca, on "
       "@user_script:693.",
       "server: the server's memory is full (maxmemory) [OOM]"},
      {"ERR Error running script (call to f_4bca): @user_script:7: @user_script: 7: -OOM "
       "command not allowed when used memory > 'maxmemory'.",
       "server: the server's memory is full (maxmemory) [OOM]"},
      {"ERR The user executing the script can't run this command or subcommand script: "
       "4bca, on @user_script:23.",
       "server: ERR The user executing the script can't run this command or subcommand"},
      {"ERR unknown command 'EVAL', with args beginning with: 'secret' ",
       "server: the server does not know EVAL (renamed or disabled, or not forwarded by "
       "a "
       "proxy; for a sentinel, use redis+sentinel://)"},
      {"DENIED Redis is running in protected mode because protected mode is enabled",
       "server: the server is in protected mode: it serves other machines only if a "
       "password or `bind` is set [DENIED]"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_STREQ(failure_from(error_of(text), "server").what(), message);
  }
}

TEST(RedisErrors, name_the_command_that_the_server_does_not_know) {
  const std::pair<const char*, const char*> cases[] = {
      {"ERR unknown command 'EVALSHA', with args beginning with: 'x'", "EVALSHA"},
      {"ERR unknown command `BLPOP`, with args beginning with: ", "BLPOP"},
      {"ERR unsupported command 'scan'", "scan"},
      {"ERR unknown subcommand 'SETNAME'. Try CLIENT HELP.", "SETNAME"},
      {"ERR Unknown Redis command called from script script: 4bca, on @user_script:3.",
       ""},
  };
  for (const auto& [text, command] : cases) {
    EXPECT_EQ(unknown_command_in(error_of(text)), command) << text;
  }
  EXPECT_FALSE(unknown_command_in(error_of("ERR wrong number of arguments for 'eval'")));
}

TEST(RedisErrors, text_of_the_server_is_escaped_and_bounded) {
  const std::string message =
      failure_from(error_of("ERR \x1b[2J\r\n" + std::string(100'000, 'x')), "server")
          .what();

  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_LT(message.size(), 400u);
}

constexpr const char* channel = "dlock:{job}:e";

TEST(RedisEvents, have_every_published_field) {
  const auto published =
      published_from(channel,
                     "released 42 0 3 1700000000000000 "
                     "{\"host\":\"web1\",\"pid\":7,\"command\":[\"x\"]}\n"
                     "{\"outcome\":\"ran\",\"exit_code\":3,\"duration_ms\":9}");

  ASSERT_TRUE(published);
  const auto& event = published->event;
  EXPECT_TRUE(published->is_event);
  EXPECT_EQ(event.kind, Event::Kind::released);
  EXPECT_EQ(event.lock, (LockName{"dlock", "job"}));
  EXPECT_EQ(event.fence.number, 42u);
  EXPECT_EQ(event.free, 3u);
  EXPECT_EQ(event.time, WallTime(1'700'000'000'000'000));
  EXPECT_EQ(event.host, "web1");
  EXPECT_EQ(event.pid, 7);
  EXPECT_EQ(event.command, std::vector<std::string>{"x"});
  ASSERT_TRUE(event.run);
  EXPECT_EQ(event.run->exit_code, 3);
  EXPECT_EQ(event.run->duration, milliseconds(9));
}

TEST(RedisEvents, say_how_long_a_lock_is_kept_and_that_alone_is_not_reported) {
  const auto granted = published_from(channel, "granted 42 30000 0 1 {}").value();
  const auto kept = published_from(channel, "kept 42 500 0 1 {}").value();

  EXPECT_TRUE(granted.is_event);
  EXPECT_EQ(granted.lasts, milliseconds(30'000));
  EXPECT_FALSE(granted.event.run);
  EXPECT_FALSE(kept.is_event);
  EXPECT_EQ(kept.lasts, milliseconds(500));
}

TEST(RedisEvents, are_only_what_the_scripts_publish) {
  for (const char* text : {"", "granted", "granted 1 2 3", "eaten 1 2 3 4 {}",
                           "granted x 2 3 4 {}", "granted 1 -2 3 4 {}"}) {
    EXPECT_FALSE(published_from(channel, text)) << text;
  }
  EXPECT_FALSE(published_from("dlock:{job}:w", "granted 1 2 3 4 {}"));
  EXPECT_FALSE(published_from("dlock:job:e", "granted 1 2 3 4 {}"));
}

}  // namespace
}  // namespace dlock::redis
