// The findings about a server, from the facts about it.

#include "store/redis/redis_health.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "store/checks.hpp"

namespace dlock::redis {
namespace {

using namespace std::chrono_literals;
using Level = Finding::Level;

// What HELLO says, which needs no permission.
const Fields hello = {{"server", "redis"},
                      {"version", "7.0.15"},
                      {"mode", "standalone"},
                      {"role", "master"}};

RedisFacts good() {
  RedisFacts facts;
  facts.server = "db:6379";
  facts.user = "jobs";
  facts.key_prefix = "dlock:";
  facts.was_reached = true;
  facts.fields = hello;
  facts.fields.merge(Fields{{"redis_version", "7.0.15"},
                            {"cluster_enabled", "0"},
                            {"aof_enabled", "1"},
                            {"maxmemory", "0"},
                            {"maxmemory_policy", "noeviction"},
                            {"connected_slaves", "0"},
                            {"connected_clients", "20"},
                            {"maxclients", "10000"},
                            {"rejected_connections", "0"},
                            {"save", ""},
                            {"min-replicas-to-write", "0"}});
  facts.round_trips.assign(20, 200us);
  facts.clock_ahead = 1ms;
  return facts;
}

// The finding of a check, which has to appear exactly once.
Finding found(const RedisFacts& facts, const std::string& check) {
  const auto findings = examination_of(facts).findings;
  const auto is_it = [&](const Finding& finding) { return finding.check == check; };
  EXPECT_EQ(std::count_if(findings.begin(), findings.end(), is_it), 1) << check;
  const auto first = std::find_if(findings.begin(), findings.end(), is_it);
  return first == findings.end() ? Finding{} : *first;
}

Level level(const RedisFacts& facts, const std::string& check) {
  return found(facts, check).level;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(RedisHealth, a_good_server_has_one_finding_for_each_check) {
  const auto findings = examination_of(good()).findings;

  EXPECT_EQ(worst_of(findings), Level::ok);
  std::vector<std::string> checks;
  for (const auto& finding : findings) {
    checks.push_back(finding.check);
    EXPECT_EQ(finding.advice, "") << finding.check;
  }
  EXPECT_EQ(checks,
            (std::vector<std::string>{"reachable", "login", "version", "role", "cluster",
                                      "permissions", "persistence", "eviction",
                                      "replicas", "clients", "clock", "round-trip"}));
}

TEST(RedisHealth, every_finding_that_is_not_ok_has_a_message_and_advice) {
  auto facts = RedisFacts{};
  facts.server = "db:6379";
  facts.user = "jobs";
  for (const auto& finding : examination_of(facts).findings) {
    EXPECT_NE(finding.message, "") << finding.check;
    EXPECT_TRUE(finding.level == Level::ok || finding.check == "clock" ||
                !finding.advice.empty())
        << finding.check;
  }
}

TEST(RedisHealth, an_unreachable_server_has_only_that_finding) {
  auto facts = good();
  facts.was_reached = false;
  facts.failure = Failure(Failure::Kind::unreachable, "cannot reach db:6379: refused");

  const auto findings = examination_of(facts).findings;

  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].check, "reachable");
  EXPECT_EQ(findings[0].level, Level::error);
  EXPECT_EQ(findings[0].message, "cannot reach db:6379: refused");
}

// What is changed of the facts about a good server: fields of INFO, CONFIG and HELLO,
// without their value if it is absent, and replies.
RedisFacts changed(const std::string& changes) {
  auto facts = good();
  std::istringstream lines(changes);
  for (std::string change; std::getline(lines, change, ';');) {
    const auto equals = change.find('=');
    const auto name = change.substr(0, equals);
    const auto value = equals == std::string::npos ? "" : change.substr(equals + 1);
    const auto dot = name.find('.');
    const auto key = name.substr(dot + 1);
    if (name == "info_refused") {
      facts.fields = hello;
      facts.refused_info = "INFO was refused: " + value;
    } else if (name == "config_refused") {
      facts.fields.erase("save");
      if (facts.refused_info.empty()) {
        facts.refused_info = "CONFIG GET was refused: " + value;
      }
    } else if (name == "refuses_work") {
      facts.refuses_work = value;
    } else if (name == "refuses_undeclared") {
      facts.refuses_undeclared = value;
    } else if (name == "rejected" || name == "misconfigured") {
      facts.failure = Failure(
          name == "rejected" ? Failure::Kind::rejected : Failure::Kind::misconfigured,
          value);
    } else if (name == "ahead") {
      facts.clock_ahead = milliseconds(std::stoi(value));
    } else if (name == "trips") {
      facts.trips_to_renew = 5;
      facts.round_trips.assign(20, milliseconds(std::stoi(value)));
    } else if (name == "timeout") {
      facts.store_timeout = milliseconds(std::stoi(value));
    } else if (name == "tls") {
      facts.uses_tls = true;
    } else {
      facts.fields.erase(key);
      if (equals != std::string::npos) facts.fields[key] = value;
    }
  }
  return facts;
}

struct Row {
  const char* changes;
  const char* check;
  Level level;
  const char* message = "";  // a part of it
  const char* advice = "";
};

constexpr Row rows[] = {
    {"rejected=db:6379: login refused: WRONGPASS", "login", Level::error},
    {"misconfigured=db:6379: no database 99", "login", Level::error},

    {"info.redis_version=6.2.0", "version", Level::ok},
    {"info.redis_version=10.0.1", "version", Level::ok},
    {"info.redis_version=7.2.4;info.valkey_version=7.2.5", "version", Level::ok},
    {"info.redis_version=7.2.4;info.valkey_version=8.0.0", "version", Level::ok},
    {"info.redis_version=6.0.16", "version", Level::error},
    {"info.redis_version=5.9.9", "version", Level::error},
    {"info.redis_version=7.2.4;info.valkey_version=7.1.9", "version", Level::error},
    {"info.redis_version=garbage", "version", Level::error},

    // HELLO says it if INFO is refused.
    {"info_refused=NOPERM", "version", Level::ok, "Redis 7.0.15"},
    {"info_refused=NOPERM", "role", Level::ok},
    {"info_refused=NOPERM", "cluster", Level::ok},
    {"info_refused=NOPERM;hello.role=replica", "role", Level::error},
    {"info_refused=NOPERM;hello.mode=cluster", "cluster", Level::error},
    {"info.role=slave;info.master_host=db1;info.master_port=6380;refuses_work=READONLY",
     "role", Level::error, "a replica of db1:6380"},

    {"info_refused=NOPERM no;config_refused=NOPERM", "persistence", Level::info,
     "NOPERM no", "ACL SETUSER jobs +info '+config|get'"},
    {"info_refused=NOPERM no;config_refused=NOPERM", "eviction", Level::info, "NOPERM no",
     "ACL SETUSER jobs +info '+config|get'"},
    {"info_refused=NOPERM no;config_refused=NOPERM", "replicas", Level::info, "NOPERM no",
     "ACL SETUSER jobs +info '+config|get'"},
    {"info_refused=NOPERM no;config_refused=NOPERM", "clients", Level::info, "NOPERM no",
     "ACL SETUSER jobs +info '+config|get'"},

    {"", "persistence", Level::ok},
    {"info.aof_last_write_status=err", "persistence", Level::warning},
    {"info.aof_enabled=0", "persistence", Level::warning},
    {"info.aof_enabled=0;config.save=3600 1", "persistence", Level::info},
    {"info.aof_enabled=0;config_refused=ERR unknown command", "persistence", Level::info,
     "CONFIG GET was refused"},

    {"info.maxmemory_policy=volatile-lru", "eviction", Level::info},
    {"info.maxmemory_policy=volatile-lru;info.maxmemory=100000000", "eviction",
     Level::warning},
    {"info.maxmemory=100000000", "eviction", Level::ok},

    {"info.connected_slaves=2", "replicas", Level::warning},
    {"info.connected_slaves=2;config.min-replicas-to-write=1", "replicas", Level::ok},
    {"info.connected_slaves=2;config.min-replicas-to-write", "replicas", Level::warning},
    {"info.connected_slaves=2;config.min-replicas-to-write;info.min_slaves_good_slaves=2",
     "replicas", Level::ok},

    {"info.connected_clients=7500", "clients", Level::ok,
     "7500 of 10000 connections in use, room for 2500 waiters or 1250 holders"},
    {"info.connected_clients=7501", "clients", Level::warning,
     "room for 2499 waiters or 1249 holders", "CONFIG SET maxclients 40000"},
    // The limit can have been lowered below what is in use.
    {"info.connected_clients=10001", "clients", Level::warning,
     "room for 0 waiters or 0 holders"},
    {"info.rejected_connections=12", "clients", Level::info,
     "has refused 12 connections since its start"},
    // Before Redis 7.0, INFO does not contain it.
    {"info.maxclients;config.maxclients=21", "clients", Level::warning},
    {"info.maxclients;config_refused=NOPERM", "clients", Level::info,
     "CONFIG GET was refused"},

    {"tls;config.max-new-tls-connections-per-cycle=1000", "tls", Level::warning},
    {"tls;config.max-new-tls-connections-per-cycle=1", "tls", Level::ok},

    {"ahead=7200000", "clock", Level::info, "2h0m ahead of"},
    {"ahead=-7200000", "clock", Level::info, "2h0m behind"},
    {"ahead=-1999", "clock", Level::ok},

    {"trips=200", "round-trip", Level::ok, "--ttl of 20s or more"},
    {"trips=300", "round-trip", Level::warning, "", "--store-timeout 3.0s"},
    {"trips=300;timeout=3000", "round-trip", Level::ok},

    {"refuses_undeclared=ERR Script attempted to access a non local key", "scripts",
     Level::error, "non local key"},
};

TEST(RedisHealth, each_finding_has_its_level_message_and_advice) {
  for (const auto& row : rows) {
    const auto finding = found(changed(row.changes), row.check);
    EXPECT_EQ(finding.level, row.level) << row.changes;
    EXPECT_TRUE(has(finding.message, row.message)) << row.changes << finding.message;
    EXPECT_TRUE(has(finding.advice, row.advice)) << row.changes << finding.advice;
  }
  const auto refused = changed("info.maxclients;config_refused=NOPERM");
  EXPECT_FALSE(found(refused, "clients").is_made);
}

TEST(RedisHealth, tls_is_not_judged_without_tls_or_before_redis_7_4) {
  for (const auto* changes : {"config.max-new-tls-connections-per-cycle=1000", "tls"}) {
    for (const auto& finding : examination_of(changed(changes)).findings) {
      EXPECT_NE(finding.check, "tls");
    }
  }
}

TEST(RedisHealth, missing_permissions_are_named_and_the_advice_grants_them) {
  auto facts = good();
  facts.missing = {{"get", "cluster|slots"}, {"ping"}};
  facts.keys_are_missing = true;

  const auto finding = found(facts, "permissions");

  EXPECT_EQ(finding.level, Level::error);
  EXPECT_EQ(
      finding.message,
      "user jobs may not call get, cluster|slots, and may not access all keys dlock:*");
  EXPECT_EQ(finding.advice, "ACL SETUSER jobs +get '+cluster|slots' '~dlock:*'");
}

TEST(RedisHealth, permissions_that_only_watch_lacks_are_a_warning) {
  auto facts = good();
  facts.missing.of_watch = {"publish", "ping"};

  const auto finding = found(facts, "watch");

  EXPECT_EQ(finding.level, Level::warning);
  EXPECT_EQ(finding.advice, "ACL SETUSER jobs +publish +ping '&dlock:*'");
  EXPECT_EQ(level(facts, "permissions"), Level::ok);
}

TEST(RedisHealth, each_reason_to_refuse_work_is_an_error_with_its_own_advice) {
  std::vector<std::string> advices;
  for (const auto* said :
       {"LOADING Redis is loading", "OOM command not allowed",
        "MISCONF Redis is configured", "NOREPLICAS Not enough", "BUSY Redis is busy"}) {
    auto facts = good();
    facts.refuses_work = said;

    const auto finding = found(facts, "work");

    EXPECT_EQ(finding.level, Level::error);
    EXPECT_TRUE(has(finding.message, said)) << finding.message;
    advices.push_back(finding.advice);
  }
  std::sort(advices.begin(), advices.end());
  EXPECT_EQ(std::unique(advices.begin(), advices.end()), advices.end());
}

TEST(RedisHealth, text_of_a_server_cannot_control_the_terminal) {
  auto facts = good();
  facts.fields["redis_version"] = "7.0\x1b[2J";
  facts.fields["maxmemory_policy"] = "\x1b[2J";
  facts.fields["connected_slaves"] = "1\x1b[2J";
  facts.fields["connected_clients"] = "9999\x1b[2J";
  facts.fields["master_host"] = "\x1b[2J";
  facts.refuses_work = "LOADING \x1b[2J\n";

  for (const auto* role : {"master", "slave"}) {
    facts.fields["role"] = role;
    for (const auto& finding : examination_of(facts).findings) {
      EXPECT_FALSE(has(finding.message, "\x1b")) << finding.check;
      EXPECT_FALSE(has(finding.message, "\n")) << finding.check;
    }
  }
}

TEST(RedisRoundTrips, one_slow_round_trip_does_not_move_the_median) {
  auto facts = good();
  facts.round_trips = {1ms, 1s, 2ms, 3ms, 2ms};
  EXPECT_EQ(examination_of(facts).round_trip, 2ms);

  facts.round_trips.clear();
  EXPECT_EQ(examination_of(facts).round_trip, std::nullopt);
}

TEST(RedisRoundTrips, the_shortest_ttl_leaves_a_tenth_for_an_operation) {
  const auto ttl_for = [](std::chrono::microseconds round_trip) {
    auto facts = good();
    facts.trips_to_renew = 1;  // of which some take twice as long
    facts.round_trips.assign(20, round_trip);
    return examination_of(facts).smallest_ttl;
  };
  EXPECT_EQ(ttl_for(200us), 500ms);
  EXPECT_EQ(ttl_for(25ms), 500ms);
  EXPECT_EQ(ttl_for(25'500us), 1000ms);
  EXPECT_EQ(ttl_for(1s), 20s);
}

TEST(Checks, of_many_things_the_first_are_listed) {
  EXPECT_EQ(listed({"a", "b", "c"}, 3), "a, b, c");
  EXPECT_EQ(listed({"a", "b", "c", "d", "e"}, 3), "a, b, c, 2 more");
}

// What replies mean

Reply refusal(const std::string& text) {
  Reply reply;
  reply.kind = Reply::Kind::error;
  reply.text = text;
  return reply;
}

TEST(RedisDenials, denied_commands_and_keys_are_told_apart_in_every_version) {
  for (const auto* text :
       {"NOPERM this user has no permissions to run the 'get' command or its subcommand",
        "NOPERM User jobs has no permissions to run the 'keys' command"}) {
    EXPECT_EQ(denial_of(refusal(text)), Denial::command) << text;
  }
  for (const auto* text :
       {"NOPERM this user has no permissions to access one of the keys used as arguments",
        "NOPERM No permissions to access a key"}) {
    EXPECT_EQ(denial_of(refusal(text)), Denial::keys) << text;
  }
  for (const auto* text : {"ERR syntax error", "NOSCRIPT No matching script", ""}) {
    EXPECT_EQ(denial_of(refusal(text)), Denial::none) << text;
  }
  EXPECT_EQ(denial_of(Reply{}), Denial::none);
}

TEST(RedisScripts,
     undeclared_keys_are_refused_only_if_the_same_script_may_use_declared_ones) {
  const Reply allowed;
  const auto undeclared = refusal("ERR Script attempted to access a non local key");
  const auto moved = refusal("MOVED 7 10.0.0.1:6379");
  const auto no_right = refusal("NOPERM No permissions to access a key");

  EXPECT_EQ(undeclared_refused(allowed, undeclared), undeclared.text);
  EXPECT_EQ(undeclared_refused(allowed, allowed), std::nullopt);
  EXPECT_EQ(undeclared_refused(moved, moved), std::nullopt);
  EXPECT_EQ(undeclared_refused(allowed, no_right), std::nullopt);
}

TEST(RedisInfo, the_first_colon_separates_a_field_from_its_value) {
  const auto fields = fields_of_info(
      "# Server\r\nredis_version:7.0.15\r\n\r\nexecutable:/a:b\r\nempty:\r\nlast:1");

  EXPECT_EQ(fields, (Fields{{"redis_version", "7.0.15"},
                            {"executable", "/a:b"},
                            {"empty", ""},
                            {"last", "1"}}));
}

}  // namespace
}  // namespace dlock::redis
