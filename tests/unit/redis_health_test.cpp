// The findings about a server, from the facts about it.

#include "store/redis/redis_health.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "store/checks.hpp"

namespace dlock::redis {
namespace {

using namespace std::chrono_literals;
using Level = Finding::Level;

RedisFacts good() {
  RedisFacts facts;
  facts.server = "db:6379";
  facts.user = "jobs";
  facts.key_prefix = "dlock:";
  facts.was_reached = true;
  facts.hello = {{"server", "redis"},
                 {"version", "7.0.15"},
                 {"mode", "standalone"},
                 {"role", "master"}};
  facts.info = {{"redis_version", "7.0.15"}, {"role", "master"},
                {"cluster_enabled", "0"},    {"aof_enabled", "1"},
                {"maxmemory", "0"},          {"maxmemory_policy", "noeviction"},
                {"connected_slaves", "0"},   {"connected_clients", "20"},
                {"maxclients", "10000"},     {"rejected_connections", "0"}};
  facts.config = {{"save", ""}, {"min-replicas-to-write", "0"}};
  facts.round_trips.assign(20, 200us);
  facts.clock_ahead = 1ms;
  return facts;
}

// The finding of a check, which has to appear exactly once.
Finding found(const RedisFacts& facts, const std::string& check) {
  const auto findings = findings_of(facts);
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
  const auto findings = findings_of(good());

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
  for (const auto& finding : findings_of(facts)) {
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

  const auto findings = findings_of(facts);

  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].check, "reachable");
  EXPECT_EQ(findings[0].level, Level::error);
  EXPECT_EQ(findings[0].message, "cannot reach db:6379: refused");
}

TEST(RedisHealth, a_refused_wrong_or_missing_login_is_an_error) {
  auto refused = good();
  refused.failure = Failure(Failure::Kind::rejected, "db:6379: login refused: WRONGPASS");
  auto wrong = good();
  wrong.failure = Failure(Failure::Kind::misconfigured, "db:6379: no database 99");
  auto missing = good();
  missing.no_login = "NOAUTH Authentication required.";

  for (const auto& facts : {refused, wrong, missing}) {
    EXPECT_EQ(level(facts, "login"), Level::error);
  }
}

TEST(RedisHealth, redis_6_2_and_valkey_7_2_and_newer_versions_are_ok) {
  const auto of = [](const char* redis, const char* valkey) {
    auto facts = good();
    facts.info["redis_version"] = redis;
    if (*valkey != '\0') facts.info["valkey_version"] = valkey;
    return level(facts, "version");
  };

  EXPECT_EQ(of("6.2.0", ""), Level::ok);
  EXPECT_EQ(of("10.0.1", ""), Level::ok);
  EXPECT_EQ(of("7.2.4", "7.2.5"), Level::ok);
  EXPECT_EQ(of("7.2.4", "8.0.0"), Level::ok);
  EXPECT_EQ(of("6.0.16", ""), Level::error);
  EXPECT_EQ(of("5.9.9", ""), Level::error);
  EXPECT_EQ(of("7.2.4", "7.1.9"), Level::error);
  EXPECT_EQ(of("garbage", ""), Level::error);
}

TEST(RedisHealth, version_and_role_come_from_hello_if_info_is_refused) {
  auto facts = good();
  facts.info.clear();
  facts.info_refused = "NOPERM";

  EXPECT_EQ(found(facts, "version").message, "Redis 7.0.15");
  EXPECT_EQ(level(facts, "role"), Level::ok);
  EXPECT_EQ(level(facts, "cluster"), Level::ok);
  facts.hello["role"] = "replica";
  facts.hello["mode"] = "cluster";
  EXPECT_EQ(level(facts, "role"), Level::error);
  EXPECT_EQ(level(facts, "cluster"), Level::error);
}

TEST(RedisHealth, a_check_without_permission_is_info_with_the_reason) {
  auto facts = good();
  facts.info.clear();
  facts.config.clear();
  facts.info_refused = "NOPERM this user has no permissions";

  for (const auto* check : {"persistence", "eviction", "replicas", "clients"}) {
    const auto finding = found(facts, check);
    EXPECT_EQ(finding.level, Level::info) << check;
    EXPECT_TRUE(has(finding.message, "NOPERM")) << finding.message;
    EXPECT_TRUE(has(finding.advice, "ACL SETUSER jobs +info '+config|get'"))
        << finding.advice;
  }
}

TEST(RedisHealth, a_replica_is_an_error_that_names_the_primary) {
  auto facts = good();
  facts.info["role"] = "slave";
  facts.info["master_host"] = "db1";
  facts.info["master_port"] = "6380";
  facts.refuses_work = "READONLY You can't write against a read only replica.";

  const auto finding = found(facts, "role");

  EXPECT_EQ(finding.level, Level::error);
  EXPECT_TRUE(has(finding.message, "a replica of db1:6380")) << finding.message;
}

TEST(RedisHealth, missing_permissions_are_named_and_the_advice_grants_them) {
  auto facts = good();
  facts.missing_commands = {"get", "client|setname"};
  facts.keys_are_missing = true;

  const auto finding = found(facts, "permissions");

  EXPECT_EQ(finding.level, Level::error);
  EXPECT_EQ(
      finding.message,
      "user jobs may not call get, client|setname, and may not access all keys dlock:*");
  EXPECT_EQ(finding.advice, "ACL SETUSER jobs +get '+client|setname' '~dlock:*'");
}

TEST(RedisHealth, permissions_that_only_watch_lacks_are_a_warning) {
  auto facts = good();
  facts.missing_for_watch = {"publish", "ping"};

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

TEST(RedisHealth, persistence_is_a_warning_with_neither_append_only_file_nor_snapshots) {
  auto facts = good();
  EXPECT_EQ(level(facts, "persistence"), Level::ok);
  facts.info["aof_last_write_status"] = "err";
  EXPECT_EQ(level(facts, "persistence"), Level::warning);
  facts.info["aof_enabled"] = "0";
  EXPECT_EQ(level(facts, "persistence"), Level::warning);
  facts.config["save"] = "3600 1";
  EXPECT_EQ(level(facts, "persistence"), Level::info);
  facts.config.clear();
  facts.config_refused = "ERR unknown command 'CONFIG'";
  EXPECT_EQ(level(facts, "persistence"), Level::info);
  EXPECT_TRUE(has(found(facts, "persistence").message, "CONFIG GET was refused"));
}

TEST(RedisHealth, an_eviction_policy_is_a_warning_if_memory_is_limited) {
  auto facts = good();
  facts.info["maxmemory_policy"] = "volatile-lru";
  EXPECT_EQ(level(facts, "eviction"), Level::info);
  facts.info["maxmemory"] = "100000000";
  EXPECT_EQ(level(facts, "eviction"), Level::warning);
  facts.info["maxmemory_policy"] = "noeviction";
  EXPECT_EQ(level(facts, "eviction"), Level::ok);
}

TEST(RedisHealth, replicas_are_a_warning_if_writes_do_not_wait_for_them) {
  auto facts = good();
  facts.info["connected_slaves"] = "2";
  EXPECT_EQ(level(facts, "replicas"), Level::warning);
  facts.config["min-replicas-to-write"] = "1";
  EXPECT_EQ(level(facts, "replicas"), Level::ok);
  facts.config.clear();
  EXPECT_EQ(level(facts, "replicas"), Level::warning);
  facts.info["min_slaves_good_slaves"] = "2";
  EXPECT_EQ(level(facts, "replicas"), Level::ok);
}

TEST(RedisHealth, connections_are_a_warning_once_fewer_than_a_quarter_are_free) {
  auto facts = good();
  facts.info["connected_clients"] = "7500";
  EXPECT_EQ(level(facts, "clients"), Level::ok);
  EXPECT_EQ(found(facts, "clients").message,
            "7500 of 10000 connections in use, room for 2500 waiters or 1250 holders");

  facts.info["connected_clients"] = "7501";

  const auto finding = found(facts, "clients");
  EXPECT_EQ(finding.level, Level::warning);
  EXPECT_TRUE(has(finding.message, "room for 2499 waiters or 1249 holders"))
      << finding.message;
  EXPECT_TRUE(has(finding.advice, "CONFIG SET maxclients 40000")) << finding.advice;
  // The limit can have been lowered below what is in use.
  facts.info["connected_clients"] = "10001";
  EXPECT_TRUE(has(found(facts, "clients").message, "room for 0 waiters or 0 holders"));
}

TEST(RedisHealth, connections_that_were_refused_before_are_reported) {
  auto facts = good();
  facts.info["rejected_connections"] = "12";

  const auto finding = found(facts, "clients");

  EXPECT_EQ(finding.level, Level::info);
  EXPECT_TRUE(has(finding.message, "has refused 12 connections since its start"))
      << finding.message;
}

// Before Redis 7.0, INFO does not contain it.
TEST(RedisHealth,
     the_limit_of_connections_is_read_from_the_configuration_of_old_servers) {
  auto facts = good();
  facts.info.erase("maxclients");
  facts.config["maxclients"] = "21";
  EXPECT_EQ(level(facts, "clients"), Level::warning);

  facts.config.erase("maxclients");
  facts.config_refused = "NOPERM";

  EXPECT_FALSE(found(facts, "clients").is_made);
  EXPECT_TRUE(has(found(facts, "clients").message, "CONFIG GET was refused"));
}

TEST(RedisHealth, too_many_tls_handshakes_in_one_cycle_are_a_warning) {
  auto facts = good();
  const auto has_tls = [&] {
    const auto findings = findings_of(facts);
    return std::any_of(findings.begin(), findings.end(),
                       [](const Finding& one) { return one.check == "tls"; });
  };
  facts.config["max-new-tls-connections-per-cycle"] = "1000";
  EXPECT_FALSE(has_tls());  // the store does not use TLS
  facts.uses_tls = true;
  EXPECT_EQ(level(facts, "tls"), Level::warning);
  facts.config["max-new-tls-connections-per-cycle"] = "1";
  EXPECT_EQ(level(facts, "tls"), Level::ok);
  facts.config.erase("max-new-tls-connections-per-cycle");
  EXPECT_FALSE(has_tls());  // before Redis 7.4
}

TEST(RedisHealth, clocks_that_are_far_apart_are_reported_in_either_direction) {
  auto facts = good();
  facts.clock_ahead = 2h;
  EXPECT_EQ(level(facts, "clock"), Level::info);
  EXPECT_TRUE(has(found(facts, "clock").message, "2h0m ahead of"));
  facts.clock_ahead = -2h;
  EXPECT_TRUE(has(found(facts, "clock").message, "2h0m behind"));
  facts.clock_ahead = -1999ms;
  EXPECT_EQ(level(facts, "clock"), Level::ok);
}

TEST(RedisHealth, round_trips_too_slow_for_the_default_store_timeout_are_a_warning) {
  auto facts = good();
  facts.trips_to_renew = 5;
  facts.round_trips.assign(20, 200ms);
  EXPECT_EQ(level(facts, "round-trip"), Level::ok);
  EXPECT_TRUE(has(found(facts, "round-trip").message, "--ttl of 20s or more"));

  facts.round_trips.assign(20, 300ms);

  const auto finding = found(facts, "round-trip");
  EXPECT_EQ(finding.level, Level::warning);
  EXPECT_TRUE(has(finding.advice, "--store-timeout 3.0s")) << finding.advice;
  facts.store_timeout = 3s;
  EXPECT_EQ(level(facts, "round-trip"), Level::ok);
}

TEST(RedisHealth, text_of_a_server_cannot_control_the_terminal) {
  auto facts = good();
  facts.info["redis_version"] = "7.0\x1b[2J";
  facts.info["maxmemory_policy"] = "\x1b[2J";
  facts.info["connected_slaves"] = "1\x1b[2J";
  facts.info["connected_clients"] = "9999\x1b[2J";
  facts.info["role"] = "slave";
  facts.info["master_host"] = "\x1b[2J";
  facts.refuses_work = "LOADING \x1b[2J\n";

  for (const auto& finding : findings_of(facts)) {
    EXPECT_FALSE(has(finding.message, "\x1b")) << finding.check;
    EXPECT_FALSE(has(finding.message, "\n")) << finding.check;
  }
}

TEST(RedisRoundTrips, one_slow_round_trip_does_not_move_the_median) {
  EXPECT_EQ(median_of({1ms, 1s, 2ms, 3ms, 2ms}), 2ms);
  EXPECT_EQ(median_of({}), std::nullopt);
}

TEST(RedisRoundTrips, the_shortest_ttl_leaves_a_tenth_for_an_operation) {
  EXPECT_EQ(smallest_ttl_for(needed_budget(200us, 3)), 500ms);
  EXPECT_EQ(smallest_ttl_for(50ms), 500ms);
  EXPECT_EQ(smallest_ttl_for(51ms), 1000ms);
  EXPECT_EQ(smallest_ttl_for(2s), 20s);
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

TEST(RedisHealth, a_server_that_refuses_undeclared_keys_is_an_error) {
  auto facts = good();
  facts.refuses_undeclared = "ERR Script attempted to access a non local key";

  const auto finding = found(facts, "scripts");

  EXPECT_EQ(finding.level, Level::error);
  EXPECT_TRUE(has(finding.message, "non local key")) << finding.message;
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
