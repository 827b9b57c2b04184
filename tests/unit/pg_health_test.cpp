// Findings of `dlock doctor` from facts about PostgreSQL servers that are hard to come
// by.

#include "store/postgres/pg_health.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace dlock::postgres {
namespace {

std::vector<Row> sessions(int used, int of_dlock, int limit) {
  return {{std::to_string(of_dlock), std::to_string(used), std::to_string(limit),
           "max_connections for users"}};
}

PgFacts good_facts() {
  PgFacts facts;
  HostFacts host;
  host.server = "db.example.org:5432";
  host.is_encrypted = true;
  host.proof = "its certificate";
  host.login = "SCRAM-SHA-256";
  facts.hosts = {host};
  facts.primary = 0;
  facts.user = "app";
  facts.database = "shop";
  facts.schema = "dlock";
  facts.version = "15.18";
  facts.answers["schema"] = {{"t", "t", "f"}};
  facts.answers["admit"] = {{"t"}};
  facts.answers["permissions"] = {{std::nullopt, std::nullopt, std::nullopt}};
  facts.answers["persistence"] = {{"2", std::nullopt}};
  facts.answers["sessions"] = sessions(10, 3, 97);
  facts.clock_ahead = std::chrono::microseconds(0);
  return facts;
}

std::string found(const PgFacts& facts, const std::string& check) {
  const auto findings = examination_of(facts).findings;
  const auto at =
      std::find_if(findings.begin(), findings.end(),
                   [&](const Finding& finding) { return finding.check == check; });
  if (at == findings.end()) return "nothing";
  const char* const levels[] = {"ok", "info", "warning", "error"};
  return levels[static_cast<int>(at->level)] + std::string(": ") + at->message;
}

TEST(PgHealth, warns_of_a_fence_that_is_far_ahead_of_the_clock) {
  auto facts = good_facts();
  facts.answers["fences"] = {{"1", std::to_string(wall_now().count()), "job"}};
  EXPECT_EQ(found(facts, "fences"), "nothing");

  facts.answers["fences"] = {{"1", "4000000000000000", "job"}};
  EXPECT_EQ(found(facts, "fences"),
            "warning: the lock job has fence 4000000000000000: implausibly far ahead of "
            "the clock");
}

TEST(PgHealth, finds_nothing_wrong_with_a_good_server) {
  EXPECT_EQ(worst_of(examination_of(good_facts()).findings), Finding::Level::ok);
}

TEST(PgHealth, names_other_products_and_versions_that_are_too_old) {
  auto facts = good_facts();
  facts.version = "11.22";
  EXPECT_EQ(found(facts, "version"), "error: PostgreSQL 11.22 is too old");
  facts.answers["version"] = {{"PostgreSQL 11.2-YB-2.20.1.0-b0 on x86_64-pc-linux-gnu"}};
  EXPECT_EQ(found(facts, "version"),
            "warning: YugabyteDB: dlock is not tested there, and promises nothing");
}

TEST(PgHealth, warns_of_two_primaries_and_of_a_server_that_is_not_proven) {
  auto facts = good_facts();
  facts.hosts.push_back(facts.hosts.front());
  facts.hosts.back().server = "db2.example.org:5432";
  facts.hosts.back().proof = "";
  facts.complaint = "db2.example.org:5432 (timeline 1) is a primary as ...";

  EXPECT_EQ(found(facts, "role"), "warning: " + facts.complaint);
  EXPECT_TRUE(
      found(facts, "tls")
          .starts_with("warning: db2.example.org:5432: encrypted, and not proven"));
}

TEST(PgHealth, warns_of_logins_that_give_the_password_away) {
  auto facts = good_facts();
  facts.hosts[0].login = "password";
  EXPECT_EQ(
      found(facts, "login"),
      "warning: user app, by password: the server learns the password at each login");
  facts.hosts[0].login = "MD5";
  EXPECT_EQ(found(facts, "login"),
            "warning: user app, by MD5: whoever sees logins can find out the password");
}

TEST(PgHealth, too_few_standbys_are_an_error_and_unused_ones_are_mentioned) {
  auto facts = good_facts();
  facts.hosts[0].standing.standby_names = "ANY 1 (s1, s2)";
  facts.hosts[0].standing.followers = {{PgFollower::Kind::standby, "s1"}};
  EXPECT_TRUE(found(facts, "replicas").starts_with("info: "));
  facts.replicas.count = 1;
  EXPECT_TRUE(found(facts, "replicas").starts_with("ok: "));
  facts.hosts[0].standing.followers->front().kind = PgFollower::Kind::unknown;
  EXPECT_TRUE(found(facts, "replicas").starts_with("warning: "));
  facts.replicas.count = 2;
  EXPECT_TRUE(found(facts, "replicas").starts_with("error: "));
  facts.replicas.count = 0;
  facts.hosts[0].standing.standby_names = "other";
  EXPECT_TRUE(found(facts, "replicas").starts_with("error: every commit hangs"));
  facts.hosts[0].standing.standby_names = "";
  EXPECT_TRUE(found(facts, "replicas").starts_with("warning: 1 standby is connected"));
}

TEST(PgHealth, warns_of_many_sessions_and_of_old_snapshots) {
  auto facts = good_facts();
  facts.answers["sessions"] = sessions(49, 3, 97);
  EXPECT_TRUE(found(facts, "sessions").starts_with("warning: "));
  facts.answers["sessions"] = sessions(400, 201, 5000);
  EXPECT_TRUE(found(facts, "sessions").ends_with("wakes all that listen"));

  EXPECT_EQ(found(facts, "snapshots"), "ok: no old transaction is open");
  facts.answers["snapshots"] = {{"7200", "5"}};
  EXPECT_TRUE(found(facts, "snapshots").starts_with("warning: a transaction is open"));
  facts.answers["snapshots"] = {{std::nullopt, "2000000"}};
  EXPECT_TRUE(found(facts, "snapshots").starts_with("warning: a transaction is open"));
}

TEST(PgHealth, warns_if_no_notification_arrives_where_one_is_expected) {
  auto facts = good_facts();
  facts.deaf = "LISTEN is unknown";
  EXPECT_TRUE(found(facts, "notifications").starts_with("warning: LISTEN is unknown"));
  facts.listens = false;
  EXPECT_EQ(found(facts, "notifications"),
            "info: not checked: turned off by listen=off in the URL");
}

TEST(PgHealth, compares_time_limits_of_the_role_with_the_store_timeout_that_is_in_force) {
  auto facts = good_facts();
  facts.answers["timeouts"] = {{"statement_timeout", "5000"},
                               {"idle_session_timeout", "0"}};
  EXPECT_EQ(found(facts, "timeouts"), "nothing");
  facts.store_timeout = milliseconds(10'000);
  EXPECT_TRUE(found(facts, "timeouts")
                  .ends_with("statement_timeout = 5.0s, less than --store-timeout (10s): "
                             "the server ends steps "
                             "that could still succeed"));
}

}  // namespace
}  // namespace dlock::postgres
