// The findings about several servers, from the facts about each of them.

#include "store/redis_quorum/quorum_health.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "store/redis/redis_health.hpp"
#include "store/redis_quorum/tally.hpp"

namespace dlock::redis_quorum {
namespace {

using namespace std::chrono_literals;
using Level = Finding::Level;
using redis::RedisFacts;

RedisFacts up_for(const std::string& seconds, const std::string& run_id) {
  RedisFacts facts;
  facts.server = "server " + run_id;
  facts.was_reached = true;
  facts.fields = {{"server", "redis"},  {"version", "7.0.15"},
                  {"role", "master"},   {"run_id", run_id},
                  {"aof_enabled", "0"}, {"uptime_in_seconds", seconds},
                  {"save", ""}};
  facts.clock_ahead = 1ms;
  return facts;
}

RedisFacts away() {
  RedisFacts facts;
  facts.server = "server d";
  facts.failure = Failure(Failure::Kind::unreachable, "d:6379 refuses the connection");
  return facts;
}

std::vector<RedisFacts> good() {
  return {up_for("500", "a"), up_for("500", "b"), up_for("500", "c")};
}

Finding found(const std::vector<RedisFacts>& servers, const std::string& check,
              milliseconds max_ttl = 60s) {
  QuorumTerms terms;
  terms.max_ttl = max_ttl;
  const auto findings = examination_of(servers, terms).findings;
  const auto is_it = [&](const Finding& one) { return one.check == check; };
  EXPECT_EQ(std::count_if(findings.begin(), findings.end(), is_it), 1) << check;
  return *std::find_if(findings.begin(), findings.end(), is_it);
}

TEST(QuorumHealth, finds_nothing_wrong_with_good_servers) {
  for (const auto* check : {"servers", "run-ids", "uptime", "clocks"}) {
    EXPECT_EQ(found(good(), check).level, Level::ok) << check;
  }
}

TEST(QuorumHealth, warns_of_unavailable_servers_while_a_majority_replies) {
  auto servers = good();
  servers[0] = away();
  EXPECT_EQ(found(servers, "servers").level, Level::warning);
  EXPECT_EQ(found(servers, "servers").message,
            "2 of 3 reply, 2 required; d:6379 refuses the connection");

  servers[1] = away();
  EXPECT_EQ(found(servers, "servers").level, Level::error);
}

TEST(QuorumHealth, finds_two_entries_that_are_the_same_server) {
  auto servers = good();
  servers[2].fields["run_id"] = "a";

  EXPECT_EQ(found(servers, "run-ids").level, Level::error);
}

TEST(QuorumHealth, finds_servers_that_have_no_vote_yet) {
  auto servers = good();
  servers[2] = up_for("60", "c");  // its first second may have been short
  EXPECT_EQ(found(servers, "uptime").level, Level::warning);
  EXPECT_NE(found(servers, "uptime").message.find("server c"), std::string::npos);
  EXPECT_EQ(found(servers, "uptime", 59s).level, Level::ok);

  servers[0] = up_for("3", "a");
  EXPECT_EQ(found(servers, "uptime").level, Level::error);
  EXPECT_EQ(found(servers, "uptime", 0s).level, Level::ok);
}

TEST(QuorumHealth, reports_info_for_checks_that_no_server_replied_to) {
  std::vector<RedisFacts> servers{away(), away(), away()};

  for (const auto* check : {"run-ids", "uptime", "clocks"}) {
    EXPECT_EQ(found(servers, check).level, Level::info) << check;
  }
}

TEST(QuorumHealth, warns_of_clocks_that_differ_by_more_than_a_second) {
  auto servers = good();
  servers[1].clock_ahead = 999ms;
  EXPECT_EQ(found(servers, "clocks").level, Level::ok);

  servers[1].clock_ahead = 1001ms;
  EXPECT_EQ(found(servers, "clocks").level, Level::warning);
}

TEST(QuorumHealth, needs_no_persistence_if_restarted_servers_wait_before_they_vote) {
  EXPECT_LE(found(good(), "persistence").level, Level::info);
  EXPECT_EQ(found(good(), "persistence", 0s).level, Level::warning);
}

// --- Which servers have a vote ---

TEST(QuorumVotes, a_server_has_a_vote_once_it_has_been_up_for_the_longest_ttl) {
  EXPECT_FALSE(why_no_vote("a:1", 60'000ms, 60'000ms));
  EXPECT_FALSE(why_no_vote("a:1", 0ms, 0ms));

  const auto why = why_no_vote("a:1", 59'999ms, 60'000ms);

  ASSERT_TRUE(why);
  EXPECT_EQ(why->kind(), Failure::Kind::unreachable);
}

TEST(QuorumVotes, a_reply_of_a_server_without_a_vote_counts_as_a_failure) {
  Vote vote;
  vote.answer = Grant{};
  vote.run_id = "a";

  EXPECT_NE(counted(vote, std::nullopt).grant(), nullptr);
  const auto struck_out = counted(vote, why_no_vote("a:1", 0ms, 1ms));

  EXPECT_FALSE(struck_out.answer);
  EXPECT_TRUE(struck_out.failure);
}

}  // namespace
}  // namespace dlock::redis_quorum
