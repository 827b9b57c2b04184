#include "store/redis_sentinel/sentinel_votes.hpp"

#include <gtest/gtest.h>

namespace dlock::redis_sentinel {
namespace {

const ServerAddress a{"10.0.0.1", 6379};
const ServerAddress b{"10.0.0.2", 6379};

SentinelBallot names(const ServerAddress& address) {
  SentinelBallot ballot;
  ballot.vote.emplace();
  ballot.vote->primary = address;
  return ballot;
}

SentinelBallot knows_none() {
  SentinelBallot ballot;
  ballot.vote.emplace();
  return ballot;
}

SentinelBallot fails(Failure::Kind kind) {
  SentinelBallot ballot;
  ballot.failure = Failure(kind, "s1: reason");
  return ballot;
}

const SentinelBallot silent;

SentinelBallot with_replicas(std::map<ServerAddress, bool> replicas) {
  auto ballot = names(a);
  ballot.vote->replicas = std::move(replicas);
  return ballot;
}

Reply text(std::string bytes) { return {Reply::Kind::string, 0, std::move(bytes), {}}; }
Reply list(std::vector<Reply> elements) {
  return {Reply::Kind::array, 0, {}, std::move(elements)};
}

Reply replica(const std::string& host, const std::string& flags,
              const std::string& run_id = "2f4e", const std::string& primary = "10.0.0.1",
              const std::string& priority = "100") {
  return list({text("ip"), text(host), text("port"), text("6379"), text("flags"),
               text(flags), text("runid"), text(run_id), text("master-host"),
               text(primary), text("slave-priority"), text(priority)});
}

std::map<ServerAddress, bool> replicas_among(std::vector<Reply> replicas) {
  const auto vote =
      vote_from({list({text("10.0.0.1"), text("6379")}), list(std::move(replicas))});
  return std::get<PrimaryVote>(vote).replicas;
}

TEST(Election, needs_more_than_half_of_all_sentinels) {
  EXPECT_EQ(elected({names(a), names(a), names(b)}), a);
  EXPECT_EQ(elected({names(a), names(a), silent}), a);
  EXPECT_EQ(elected({names(a), silent, silent}), std::nullopt);
  EXPECT_EQ(elected({names(a), names(a), names(b), names(b)}), std::nullopt);
  EXPECT_EQ(elected({names(a)}), a);
  EXPECT_EQ(elected({knows_none(), knows_none(), names(a)}), std::nullopt);
}

TEST(Opinion, needs_a_majority_of_all_to_confirm_and_of_the_replies_to_deny) {
  EXPECT_EQ(opinion_on(a, {names(a), names(a), silent}), Opinion::confirmed);
  EXPECT_EQ(opinion_on(a, {names(a), silent, silent}), Opinion::unknown);
  EXPECT_EQ(opinion_on(a, {names(b), silent, silent}), Opinion::denied);
  EXPECT_EQ(opinion_on(a, {names(b), names(a), silent}), Opinion::unknown);
  EXPECT_EQ(opinion_on(a, {silent, silent, silent}), Opinion::unknown);
}

TEST(Opinion, is_certain_once_no_other_reply_can_change_it) {
  EXPECT_TRUE(is_certain(a, {names(a), names(a), silent}));
  EXPECT_TRUE(is_certain(a, {names(b), names(b), silent}));
  EXPECT_FALSE(is_certain(a, {names(b), names(a), silent}));
  EXPECT_FALSE(is_certain(a, {names(a), silent, silent}));
}

TEST(ReplicasUp, exclude_only_those_that_a_majority_of_all_sentinels_sees_down) {
  const ServerAddress c{"10.0.0.3", 6379};
  EXPECT_EQ(replicas_up(a, {with_replicas({{b, true}, {c, true}}), silent, silent}), 2U);
  EXPECT_EQ(
      replicas_up(a, {with_replicas({{b, false}}), with_replicas({{b, true}}), silent}),
      1U);
  EXPECT_EQ(
      replicas_up(a, {with_replicas({{b, false}}), with_replicas({{b, false}}), silent}),
      0U);
}

TEST(ReplicasUp, exclude_the_primary_itself_that_was_one_before) {
  EXPECT_EQ(
      replicas_up(b, {with_replicas({{a, true}, {b, true}}), with_replicas({{a, true}})}),
      1U);
}

TEST(PrimaryVote, has_the_primary_and_which_replicas_are_up) {
  const auto vote =
      vote_from({list({text("10.0.0.1"), text("6379")}),
                 list({replica("10.0.0.2", "slave"), replica("10.0.0.3", "s_down,slave"),
                       replica("10.0.0.4", "slave,disconnected"),
                       replica("10.0.0.5", "slave", "")})});

  const auto& said = std::get<PrimaryVote>(vote);
  EXPECT_EQ(said.primary, a);
  const std::map<ServerAddress, bool> expected{{{"10.0.0.2", 6379}, true},
                                               {{"10.0.0.3", 6379}, false},
                                               {{"10.0.0.4", 6379}, false},
                                               {{"10.0.0.5", 6379}, false}};
  EXPECT_EQ(said.replicas, expected);
}

// It still reports that it is a primary, so it replicates nothing.
TEST(PrimaryVote, does_not_count_an_old_primary_that_runs) {
  const auto replicas = replicas_among(
      {replica("10.0.0.2", "slave"), replica("10.0.0.3", "slave", "9c", "?")});

  const std::map<ServerAddress, bool> expected{{{"10.0.0.2", 6379}, true},
                                               {{"10.0.0.3", 6379}, false}};
  EXPECT_EQ(replicas, expected);
}

TEST(PrimaryVote, counts_an_old_primary_that_would_be_promoted_before_the_replicas) {
  const auto replicas =
      replicas_among({replica("10.0.0.2", "slave", "2f", "10.0.0.1", "200"),
                      replica("10.0.0.3", "slave", "9c", "?", "100"),
                      replica("10.0.0.4", "slave", "", "?", "100"),
                      replica("10.0.0.5", "slave,s_down", "5e", "10.0.0.1", "10")});

  const std::map<ServerAddress, bool> expected{{{"10.0.0.2", 6379}, true},
                                               {{"10.0.0.3", 6379}, true},
                                               {{"10.0.0.4", 6379}, false},
                                               {{"10.0.0.5", 6379}, false}};
  EXPECT_EQ(replicas, expected);
}

// A sentinel never promotes a replica with the priority 0.
TEST(PrimaryVote,
     does_not_count_an_old_primary_because_of_a_replica_that_is_never_promoted) {
  const auto replicas = replicas_among(
      {replica("10.0.0.2", "slave", "2f", "10.0.0.1", "0"),
       replica("10.0.0.3", "slave", "4d"), replica("10.0.0.4", "slave", "9c", "?")});

  const std::map<ServerAddress, bool> expected{{{"10.0.0.2", 6379}, true},
                                               {{"10.0.0.3", 6379}, true},
                                               {{"10.0.0.4", 6379}, false}};
  EXPECT_EQ(replicas, expected);
}

TEST(PrimaryVote, is_invalid_if_the_sentinel_refuses_to_list_the_replicas) {
  Reply refused;
  refused.kind = Reply::Kind::error;
  refused.text = "NOPERM";

  const auto vote = vote_from({list({text("10.0.0.1"), text("6379")}), refused});

  EXPECT_EQ(std::get<Reply>(vote).text, "NOPERM");
}

TEST(PrimaryVote, is_invalid_if_the_address_is_invalid) {
  for (const char* port : {"", "0", "65536", "6379x", "-1"}) {
    const auto vote = vote_from({list({text("10.0.0.1"), text(port)})});
    EXPECT_TRUE(std::holds_alternative<Reply>(vote)) << port;
  }
  EXPECT_TRUE(std::holds_alternative<Reply>(vote_from({list({text("one")})})));
  EXPECT_EQ(std::get<PrimaryVote>(vote_from({Reply{}})).primary, std::nullopt);
}

TEST(NobodyElected, distinguishes_temporary_from_permanent_failures) {
  const std::vector<std::string> three{"s1", "s2", "s3"};
  using Kind = Failure::Kind;
  const auto kind_of = [&](const std::vector<SentinelBallot>& ballots) {
    return no_primary_elected("main", three, ballots).kind();
  };
  EXPECT_EQ(kind_of({knows_none(), knows_none(), names(a)}), Kind::misconfigured);
  EXPECT_EQ(kind_of({fails(Kind::rejected), fails(Kind::rejected), names(a)}),
            Kind::rejected);
  EXPECT_EQ(kind_of({fails(Kind::misconfigured), fails(Kind::misconfigured), silent}),
            Kind::misconfigured);
  EXPECT_EQ(kind_of({fails(Kind::unreachable), silent, silent}), Kind::unreachable);
  EXPECT_EQ(kind_of({fails(Kind::exhausted), silent, silent}), Kind::exhausted);
  EXPECT_EQ(
      std::string(no_primary_elected("main", three, {names(a), names(b), silent}).what()),
      "no majority of 3 sentinels agrees on a primary for 'main': s3 does "
      "not reply");
  EXPECT_EQ(std::string(no_primary_elected("main", {"s1"}, {silent}).what()),
            "the sentinel names no primary 'main': s1 does not reply");
}

TEST(SentinelVotes, a_sentinel_with_two_entries_is_reported_and_has_one_vote) {
  const auto by = [](const ServerAddress& address, const std::string& id) {
    auto ballot = names(address);
    ballot.id = id;
    return ballot;
  };
  const std::vector<std::string> entries{"s1:1", "s2:1", "s3:1"};
  const std::vector<SentinelBallot> twins{by(a, "x"), by(a, "x"), by(b, "y")};

  const auto failure = same_sentinel(entries, twins);

  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind(), Failure::Kind::misconfigured);
  EXPECT_STREQ(failure->what(),
               "s1:1 and s2:1 are the same sentinel: name each sentinel once");
  EXPECT_FALSE(elected(twins));
  // Old sentinels do not say who they are.
  EXPECT_FALSE(same_sentinel(entries, {names(a), names(a), names(b)}));
}

TEST(SentinelVotes, mapped_addresses_take_the_place_of_announced_ones) {
  const auto map = AddressMap::parsed("10.0.0.1=127.0.0.1:7001,10.0.0.2:6379=[::1]");
  auto vote = *with_replicas({{b, true}}).vote;

  vote = translated(vote, map);

  EXPECT_EQ(vote.primary, (ServerAddress{"127.0.0.1", 7001}));
  EXPECT_EQ(vote.replicas.begin()->first, (ServerAddress{"::1", 6379}));
}

}  // namespace
}  // namespace dlock::redis_sentinel
