#include <gtest/gtest.h>

#include "store/redis_quorum/candidacy.hpp"
#include "store/redis_quorum/tally.hpp"

namespace dlock::redis_quorum {
namespace {

const auto start = Clock::time_point(std::chrono::seconds(100));

Vote said(Answer answer) {
  static int lives = 0;
  return {std::move(answer), {}, "life " + std::to_string(++lives),
          WallTime(0),       "", false};
}

Vote grants(std::uint64_t fence, milliseconds after = milliseconds(0)) {
  Grant grant;
  grant.fence.number = fence;
  grant.sent_at = start + after;
  grant.deadline = grant.sent_at + milliseconds(1000);
  return said(grant);
}

Vote held_by(std::vector<std::uint64_t> fences, std::size_t place = 0) {
  Busy busy;
  for (const auto fence : fences) {
    HolderInfo holder;
    holder.fence.number = fence;
    busy.holders.push_back(holder);
  }
  busy.place = place;
  busy.queued = place;
  return said(std::move(busy));
}

Vote fails(Failure::Kind kind = Failure::Kind::unreachable) {
  Vote vote;
  vote.failure = Failure(kind, "a:6379 refuses the connection");
  return vote;
}

Vote had_run(const std::string& outcome, std::uint64_t fence = 7) {
  RunInfo run;
  run.fence.number = fence;
  run.outcome = outcome;
  return said(Deduplicated{run});
}

const Vote silent;

template <typename T>
T as(const TallyResult& outcome) {
  return std::get<T>(outcome);
}

template <typename T>
bool answers(const TallyResult& outcome) {
  const auto* answer = std::get_if<Answer>(&outcome);
  return answer != nullptr && std::holds_alternative<T>(*answer);
}

TEST(Majority, any_two_have_a_server_in_common) {
  for (std::size_t n = 3; n <= 9; ++n) {
    EXPECT_GT(2 * needed(n), n);
    EXPECT_GT(needed(n) + in_every_majority(n), n);
  }
}

TEST(Majority, strength_is_how_many_servers_may_forget_before_others_have_a_majority) {
  for (std::size_t n = 3; n <= 9; ++n) {
    for (std::size_t held = needed(n); held <= n; ++held) {
      std::size_t forgotten = 0;
      while (n - held + forgotten < needed(n)) ++forgotten;
      EXPECT_EQ(strength(n, held), static_cast<int>(forgotten) - 1) << n << " " << held;
    }
  }
}

TEST(QuorumTally, grants_what_a_majority_grants) {
  const auto held = as<Held>(tally({grants(5), held_by({4}), grants(5)}));

  EXPECT_EQ(held.grant.fence.number, 5u);
  EXPECT_EQ(held.servers, 2u);
}

TEST(QuorumTally, a_lease_ends_with_the_first_of_its_votes) {
  const auto late = grants(5, milliseconds(9));
  const auto early = grants(5, milliseconds(2));
  for (const auto& votes : {Votes{late, early, silent}, Votes{early, late, silent}}) {
    const auto held = as<Held>(tally(votes));
    EXPECT_EQ(held.grant.sent_at, start + milliseconds(2));
    EXPECT_EQ(held.grant.deadline, start + milliseconds(1002));
  }
}

TEST(QuorumTally, takes_the_greatest_fence_if_counters_differ) {
  EXPECT_EQ(as<Uneven>(tally({grants(5), grants(9), silent})).fence.number, 9u);
}

TEST(QuorumTally, a_differing_counter_does_not_matter_if_a_majority_agrees) {
  const auto held = as<Held>(tally({grants(5), grants(9), grants(5)}));

  EXPECT_EQ(held.grant.fence.number, 5u);
  EXPECT_EQ(held.servers, 2u);
}

TEST(QuorumTally, a_grant_is_broken_if_as_many_say_so_as_a_break_has_reached) {
  const auto broken = [] {
    auto vote = grants(5);
    std::get<Grant>(*vote.answer).broken = true;
    return vote;
  };

  EXPECT_TRUE(as<Held>(tally({grants(5), broken(), broken()})).grant.broken);
  EXPECT_TRUE(as<Held>(tally({grants(5), broken(), silent})).grant.broken);
  // A break reaches a majority, and so at least two of three that have the lease.
  EXPECT_FALSE(as<Held>(tally({grants(5), broken(), grants(5)})).grant.broken);
}

TEST(QuorumTally, is_busy_if_another_claim_has_a_majority) {
  EXPECT_TRUE(answers<Busy>(tally({held_by({4}), held_by({4}), grants(5)})));
}

TEST(QuorumTally, is_split_even_if_a_silent_server_may_hide_a_majority) {
  const auto split = as<Split>(tally({held_by({4}), silent, grants(5)}));

  EXPECT_TRUE(split.may_be_held);
}

// The clocks of both are behind the counters, and the counters are equal.
TEST(QuorumTally, is_split_even_if_another_claim_was_granted_the_same_fence) {
  const auto by_another = [] {
    auto vote = held_by({5});
    std::get<Busy>(*vote.answer).holders[0].pid = 2;
    return vote;
  };

  const auto split =
      as<Split>(tally({grants(5), grants(5), held_by({5}), by_another(), by_another()}));

  EXPECT_FALSE(split.may_be_held);
}

TEST(QuorumTally, reports_only_the_holder_that_may_have_a_majority) {
  const auto outcome = tally({held_by({4}), held_by({4}), held_by({6})});

  const auto holders = std::get<Busy>(as<Answer>(outcome)).holders;
  ASSERT_EQ(holders.size(), 1u);
  EXPECT_EQ(holders[0].fence.number, 4u);
}

TEST(QuorumTally, is_split_if_nobody_can_have_a_majority) {
  const auto split = as<Split>(tally({grants(5), held_by({4}, 1), held_by({6}, 2)}));

  EXPECT_FALSE(split.is_next);
  EXPECT_EQ(split.busy.holders.size(), 2u);
}

TEST(QuorumTally, a_claim_without_a_vote_is_busy_and_not_split) {
  EXPECT_TRUE(answers<Busy>(tally({held_by({4}), held_by({5}), held_by({6})})));
}

TEST(QuorumTally, a_claim_that_is_missing_from_too_many_queues_has_no_place) {
  const auto place_in = [](const Votes& votes) {
    return std::get<Busy>(as<Answer>(tally(votes))).place;
  };

  EXPECT_EQ(place_in({held_by({4}, 0), held_by({4}, 0), held_by({4}, 3)}), 0u);
  EXPECT_EQ(place_in({held_by({4}, 0), held_by({4}, 2), held_by({4}, 3)}), 3u);
}

TEST(QuorumTally, fails_if_too_few_servers_reply) {
  const auto failure = as<Failure>(tally({grants(5), fails(), silent}));

  EXPECT_EQ(failure.kind(), Failure::Kind::unreachable);
  EXPECT_STREQ(failure.what(),
               "1 of 3 servers reply, 2 required: a:6379 refuses the connection");
}

TEST(QuorumTally, is_rejected_only_if_no_majority_is_possible_without_those) {
  const auto rejected = Failure::Kind::rejected;
  const auto kind_of = [](const Votes& votes) {
    return as<Failure>(tally(votes)).kind();
  };

  EXPECT_EQ(kind_of({grants(5), fails(rejected), fails(rejected)}), rejected);
  EXPECT_EQ(kind_of({grants(5), fails(rejected), fails()}), Failure::Kind::unreachable);
  EXPECT_EQ(kind_of({fails(Failure::Kind::exhausted), fails(), fails()}),
            Failure::Kind::exhausted);
}

TEST(QuorumTally, a_misconfigured_server_is_one_that_does_not_vote) {
  const auto wrong = fails(Failure::Kind::misconfigured);

  EXPECT_EQ(as<Held>(tally({grants(5), grants(5), wrong})).servers, 2u);
  EXPECT_EQ(as<Failure>(tally({grants(5), wrong, wrong})).kind(),
            Failure::Kind::misconfigured);
  EXPECT_EQ(as<Failure>(tally({grants(5), fails(), wrong})).kind(),
            Failure::Kind::unreachable);
  EXPECT_EQ(complaints_about({grants(5), grants(5), wrong}).size(), 1u);
  EXPECT_TRUE(complaints_about({grants(5), grants(5), fails()}).empty());
}

TEST(QuorumTally, says_how_many_can_vote_if_servers_have_just_started) {
  const auto young = [](const std::string& name) {
    auto vote = grants(5);
    vote.server = name;
    return counted(vote, why_no_vote(name, milliseconds(2000), milliseconds(60'000)));
  };

  const auto failure = as<Failure>(tally({grants(5), young("b:1"), young("c:1")}));

  EXPECT_EQ(failure.kind(), Failure::Kind::unreachable);
  EXPECT_STREQ(
      failure.what(),
      "3 of 3 servers reply, 1 can vote, 2 required: b:1 has no vote until it has "
      "been up for 1m0s (--max-ttl), in 58s; c:1 has no vote until it has been up "
      "for 1m0s (--max-ttl), in 58s");
}

TEST(QuorumTally, refuses_two_entries_that_are_the_same_server) {
  auto twin = grants(5);
  auto other = twin;

  const auto failure = as<Failure>(tally({twin, other, grants(5)}));

  EXPECT_EQ(failure.kind(), Failure::Kind::misconfigured);
}

TEST(QuorumTally, a_run_counts_only_if_a_majority_knows_it) {
  for (const auto* outcome : {"ran", "running", "vanished"}) {
    EXPECT_FALSE(
        answers<Deduplicated>(tally({had_run(outcome), held_by({}), held_by({})})))
        << outcome;
    EXPECT_TRUE(
        answers<Deduplicated>(tally({had_run(outcome), had_run(outcome), silent})))
        << outcome;
    EXPECT_FALSE(
        answers<Deduplicated>(tally({had_run(outcome, 7), had_run(outcome, 8), silent})))
        << outcome;
  }
}

TEST(QuorumTally, two_runs_with_the_same_fence_are_not_one_run) {
  const auto another = [] {
    auto vote = had_run("running");
    std::get<Deduplicated>(*vote.answer).by.host = "b";
    return vote;
  };

  EXPECT_FALSE(answers<Deduplicated>(tally({had_run("running"), another(), grants(7)})));
  EXPECT_TRUE(answers<Deduplicated>(tally({another(), another(), grants(7)})));
}

TEST(QuorumTally, a_claim_is_superseded_if_a_majority_says_so) {
  EXPECT_FALSE(
      answers<Superseded>(tally({said(Superseded{}), held_by({4}, 1), held_by({4}, 1)})));
  EXPECT_TRUE(
      answers<Superseded>(tally({said(Superseded{}), said(Superseded{}), silent})));
}

TEST(QuorumTally, a_majority_reports_an_outer_run_or_other_slots) {
  const auto above = [] { return said(HeldByOuterRun{}); };
  const auto slots = [] { return said(SlotsDiffer{2}); };

  EXPECT_TRUE(answers<HeldByOuterRun>(tally({above(), grants(5), above()})));
  EXPECT_TRUE(answers<SlotsDiffer>(tally({slots(), slots(), silent})));
}

// Screening

const WallTime now{1'700'000'000'000'000};
const std::uint64_t present = 1'700'000'000'000'000;
const std::uint64_t days = 86'400'000'000;

Failure struck_out(const Vote& vote) {
  EXPECT_FALSE(vote.answer);
  return vote.failure.value_or(Failure(Failure::Kind::exhausted, "was not struck out"));
}

TEST(QuorumScreening, a_fence_that_is_implausibly_far_ahead_is_a_failed_vote) {
  for (const auto fence : {std::uint64_t{9'007'199'254'740'990}, present + 33 * days}) {
    const auto votes = screened({grants(fence), grants(present), grants(present)}, now);

    EXPECT_EQ(struck_out(votes[0]).kind(), Failure::Kind::misconfigured);
    EXPECT_EQ(as<Held>(tally(votes)).grant.fence.number, present);
    EXPECT_EQ(complaints_about(votes).size(), 1u);
    const auto failure =
        as<Failure>(tally(screened({grants(fence), grants(present), fails()}, now)));
    EXPECT_EQ(failure.kind(), Failure::Kind::unreachable);
  }
  EXPECT_NE(screened({grants(present + 31 * days), silent, silent}, now)[0].grant(),
            nullptr);
}

TEST(QuorumScreening, fences_far_ahead_that_a_majority_has_reached_count) {
  const auto ahead = present + 400 * days;  // the clock was wrong once

  auto votes = screened({grants(ahead), grants(ahead + 5), grants(present)}, now);
  EXPECT_EQ(as<Uneven>(tally(votes)).fence.number, ahead + 5);

  votes = screened({grants(ahead), grants(9'007'199'254'740'990), silent}, now);
  EXPECT_NE(votes[0].grant(), nullptr);
  EXPECT_EQ(votes[1].grant(), nullptr);
}

TEST(QuorumScreening, what_a_single_server_reports_is_a_failed_vote) {
  for (const auto& lie : {had_run("ran"), said(SlotsDiffer{2}), said(HeldByOuterRun{})}) {
    const auto votes = screened({grants(present), lie, grants(present)}, now);

    EXPECT_EQ(struck_out(votes[1]).kind(), Failure::Kind::misconfigured);
    EXPECT_EQ(as<Held>(tally(votes)).servers, 2u);
    const auto most = screened({grants(present), lie, lie}, now);
    EXPECT_TRUE(most[1].answer);
  }
}

TEST(QuorumScreening, a_run_in_progress_that_a_single_server_reports_may_be_its_vote) {
  const auto votes = screened({grants(present), had_run("running"), silent}, now);

  EXPECT_TRUE(votes[1].answer);
}

TEST(QuorumTally, is_certain_when_no_further_vote_matters) {
  EXPECT_FALSE(is_certain(Votes{grants(5), silent, silent}));
  EXPECT_TRUE(is_certain(Votes{grants(5), grants(5), silent}));
  EXPECT_TRUE(is_certain(Votes{held_by({4}), held_by({4}), silent}));
  EXPECT_FALSE(is_certain(Votes{held_by({4}), grants(5), silent}));
  EXPECT_TRUE(is_certain(Votes{fails(), fails(), silent}));
}

// Renewals

MaybeReply<Renewal> says(Renewal renewal) { return renewal; }
const MaybeReply<Renewal> unanswered;
const auto confirmed = says(Renewal::confirmed);
const auto gone = says(Renewal::gone);

Renewal renewal_of(const RenewalReplies& all) { return std::get<Renewal>(tally(all)); }

TEST(QuorumTally, a_lease_is_confirmed_by_a_majority) {
  EXPECT_EQ(renewal_of({confirmed, confirmed, gone}), Renewal::confirmed);
  EXPECT_EQ(renewal_of({confirmed, confirmed, unanswered}), Renewal::confirmed);
}

TEST(QuorumTally, a_lease_is_broken_if_as_many_say_so_as_a_break_has_reached) {
  const auto broken = says(Renewal::broken);

  EXPECT_EQ(renewal_of({confirmed, broken, broken}), Renewal::broken);
  EXPECT_EQ(renewal_of({confirmed, broken, gone}), Renewal::broken);
  EXPECT_EQ(renewal_of({confirmed, broken, unanswered}), Renewal::broken);
  EXPECT_EQ(renewal_of({confirmed, broken, confirmed}), Renewal::confirmed);
}

TEST(QuorumTally, a_lease_is_lost_as_soon_as_a_majority_can_no_longer_confirm_it) {
  EXPECT_EQ(renewal_of({gone, gone, unanswered}), Renewal::gone);
  EXPECT_EQ(renewal_of({gone, says(Renewal::taken_over), confirmed}),
            Renewal::taken_over);
  EXPECT_TRUE(is_certain(RenewalReplies{gone, gone, unanswered}));
}

TEST(QuorumTally, a_renewal_fails_while_too_few_servers_reply) {
  const RenewalReplies silence{confirmed, unanswered, gone};

  EXPECT_STREQ(std::get<Failure>(tally(silence)).what(),
               "1 of 3 servers confirm the lease, 2 required: the others do not reply");
  EXPECT_FALSE(is_certain(silence));
}

TEST(QuorumTally,
     a_lease_is_reclaimed_if_the_majority_needs_servers_that_set_it_up_again) {
  const auto again = says(Renewal::reclaimed);

  EXPECT_EQ(renewal_of({confirmed, again, gone}), Renewal::reclaimed);
  EXPECT_EQ(renewal_of({confirmed, confirmed, again}), Renewal::confirmed);
}

// Releases

MaybeReply<Release> returns(Release release) { return release; }
const MaybeReply<Release> no_reply;
const MaybeReply<Release> failed = Failure(Failure::Kind::unreachable, "a is not there");

Release release_of(const ReleaseReplies& all, bool relied = false) {
  return std::get<Release>(tally(all, relied));
}

TEST(QuorumTally, a_lock_is_released_if_a_majority_replies_and_one_server_had_it) {
  const auto released = returns(Release::released);
  const auto not_ours = returns(Release::not_ours);

  EXPECT_EQ(release_of({released, not_ours, failed}), Release::released);
  EXPECT_EQ(release_of({not_ours, not_ours, no_reply}), Release::not_ours);
  EXPECT_EQ(release_of({released, not_ours, not_ours}), Release::not_ours);
  EXPECT_TRUE(std::holds_alternative<Failure>(
      tally(ReleaseReplies{released, failed, no_reply}, false)));
}

TEST(QuorumTally, a_server_that_does_not_know_the_lease_of_a_run_has_lost_it) {
  const auto released = returns(Release::released);
  const auto taken_over = returns(Release::taken_over);
  const auto not_ours = returns(Release::not_ours);

  EXPECT_EQ(release_of({released, taken_over, not_ours}, true), Release::taken_over);
  EXPECT_EQ(release_of({released, released, not_ours}, true), Release::released);
}

TEST(QuorumTally, a_release_reports_a_loss_if_no_majority_had_the_lease) {
  const auto released = returns(Release::released);
  const auto vanished = returns(Release::gone);

  EXPECT_EQ(release_of({released, vanished, vanished}), Release::gone);
  EXPECT_EQ(release_of({returns(Release::taken_over), vanished, no_reply}),
            Release::taken_over);
  EXPECT_EQ(release_of({released, released, vanished}), Release::released);
  const auto broken = returns(Release::broken);
  EXPECT_EQ(release_of({released, broken, broken}), Release::broken);
  EXPECT_EQ(release_of({released, vanished, broken}), Release::broken);
  EXPECT_EQ(release_of({released, released, broken}), Release::released);
}

}  // namespace
}  // namespace dlock::redis_quorum
