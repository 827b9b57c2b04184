#include <gtest/gtest.h>

#include "store/redis_quorum/candidacy.hpp"

namespace dlock::redis_quorum {
namespace {

using std::chrono::seconds;
using Then = CandidacyStep::Then;

const auto start = Clock::time_point(seconds(100));
const WallTime wall(1'000'000);
const milliseconds took(2);

std::uint64_t most(std::uint64_t number) { return number; }

Vote grants(std::uint64_t fence) {
  Grant grant;
  grant.fence.number = fence;
  return {Answer(grant), {}, "", WallTime(0), "", false};
}

Vote busy(std::uint64_t holder, std::size_t place = 0, std::int64_t time = 500) {
  Busy busy;
  HolderInfo info;
  info.fence.number = holder;
  busy.holders.push_back(info);
  busy.place = place;
  return {Answer(busy), {}, "", WallTime(time), "", false};
}

Vote fails() {
  return {{}, Failure(Failure::Kind::unreachable, "a is not there"),
          "", WallTime(0),
          "", false};
}

CandidacyStep after(Candidacy& candidacy, const Votes& votes, Queue queue = Queue::join,
                    Clock::time_point now = start) {
  return candidacy.after(votes, queue, now, took);
}

class QuorumTicket : public ::testing::Test {
 protected:
  Candidacy candidacy_{Fence{}, false, most};
};

TEST_F(QuorumTicket, proposes_the_time_of_its_clock_as_the_fence) {
  EXPECT_EQ(candidacy_.ballot(wall).fence.number, 1'000'000u);
  EXPECT_EQ(candidacy_.ballot(wall).ticket, 0);
}

TEST_F(QuorumTicket, proposes_a_fence_above_the_floor) {
  Candidacy ahead(Fence{2'000'000}, false, most);

  EXPECT_EQ(ahead.ballot(wall).fence.number, 2'000'001u);
}

TEST_F(QuorumTicket, makes_all_servers_raise_the_fence_to_the_greatest) {
  candidacy_.ballot(wall);

  EXPECT_EQ(after(candidacy_, {grants(2'000'005), grants(2'000'009), fails()}).then,
            Then::ask);

  EXPECT_EQ(candidacy_.ballot(wall).fence.number, 2'000'009u);
}

TEST_F(QuorumTicket, gives_up_if_raising_the_fence_never_ends) {
  std::uint64_t fence = 5;
  CandidacyStep step;
  do {
    step = after(candidacy_, {grants(fence), grants(fence + 1), fails()});
    ++fence;
  } while (step.then == Then::ask && fence < 100);

  EXPECT_TRUE(std::holds_alternative<Failure>(step.said));
  EXPECT_LT(fence, 20u);
}

TEST_F(QuorumTicket, keeps_the_fence_of_its_grant) {
  after(candidacy_, {grants(5), grants(5), fails()});

  EXPECT_EQ(candidacy_.ballot(wall).fence.number, 5u);
  EXPECT_EQ(candidacy_.repair().fence.number, 5u);
  candidacy_.forget();
  EXPECT_EQ(candidacy_.ballot(wall).fence.number, 1'000'000u);
}

TEST_F(QuorumTicket, uses_the_greatest_server_time_as_its_ticket) {
  const auto step = after(candidacy_, {busy(4, 1, 500), busy(4, 1, 700), fails()});

  EXPECT_EQ(step.then, Then::ask);
  EXPECT_EQ(candidacy_.ballot(wall).ticket, 700);
}

TEST_F(QuorumTicket, keeps_its_ticket_whatever_servers_reply_later) {
  after(candidacy_, {busy(4, 1, 500), busy(4, 1, 700), fails()});
  const auto step = after(candidacy_, {busy(4, 1, 900), busy(4, 1, 900), fails()});

  EXPECT_EQ(step.then, Then::done);
  EXPECT_FALSE(step.undoes);
  EXPECT_EQ(candidacy_.ballot(wall).ticket, 700);
}

TEST_F(QuorumTicket, a_superseding_claim_takes_its_ticket_from_its_own_clock_once) {
  Candidacy newest(Fence{}, true, most);

  EXPECT_EQ(newest.ballot(wall).ticket, wall.count());
  EXPECT_EQ(newest.ballot(wall + seconds(1)).ticket, wall.count());
}

TEST_F(QuorumTicket, keeps_its_votes_while_another_claim_may_hold_the_lock) {
  after(candidacy_, {grants(5), busy(4, 1), busy(4, 1)});
  after(candidacy_, {grants(5), busy(4, 1), busy(4, 1)});

  EXPECT_EQ(candidacy_.gives_way_at(), Clock::time_point::max());
}

TEST_F(QuorumTicket, releases_its_votes_if_nobody_reaches_a_majority) {
  const Votes split{grants(5), busy(4, 2), busy(6, 2)};
  after(candidacy_, split);  // for its ticket
  EXPECT_EQ(after(candidacy_, split).then, Then::done);
  const auto gives_way_at = candidacy_.gives_way_at();
  ASSERT_LT(gives_way_at, start + seconds(1));

  EXPECT_EQ(after(candidacy_, split, Queue::join, gives_way_at).then, Then::give_back);
}

TEST_F(QuorumTicket,
       gives_way_if_another_claim_may_have_a_majority_with_a_silent_server) {
  const Votes hidden{grants(5), busy(4, 1), fails()};
  after(candidacy_, hidden);  // for its ticket
  after(candidacy_, hidden);
  const auto gives_way_at = candidacy_.gives_way_at();

  ASSERT_LT(gives_way_at, start + seconds(10));
  EXPECT_EQ(after(candidacy_, hidden, Queue::join, gives_way_at).then, Then::give_back);
}

TEST_F(QuorumTicket, a_claim_that_does_not_wait_gives_up_if_another_may_have_a_majority) {
  const auto step = after(candidacy_, {grants(5), busy(4, 1), fails()}, Queue::stay_out);

  EXPECT_EQ(step.then, Then::done);
  EXPECT_TRUE(step.undoes);
}

TEST_F(QuorumTicket, asks_for_a_greater_fence_after_releasing_a_grant) {
  after(candidacy_, {grants(5'000'000), grants(5'000'000), fails()});

  candidacy_.gave_back(Fence{5'000'000});

  EXPECT_GT(candidacy_.ballot(wall).fence.number, 5'000'000u);
}

TEST_F(QuorumTicket, asks_for_a_greater_fence_than_those_of_its_released_votes) {
  const Votes split{grants(5'000'000), busy(4), busy(6)};

  after(candidacy_, split, Queue::stay_out);

  EXPECT_GT(candidacy_.ballot(wall).fence.number, 5'000'000u);
}

// Their servers may have restarted since, and granted the lock to another claim.
TEST_F(QuorumTicket, raises_votes_that_are_older_than_its_request) {
  after(candidacy_, {grants(5), fails(), fails()});
  const auto wanted = candidacy_.ballot(wall).fence;

  const auto step = after(candidacy_, {grants(5), grants(5), fails()});

  EXPECT_EQ(step.then, Then::ask);
  EXPECT_EQ(candidacy_.ballot(wall).fence, wanted);
  EXPECT_TRUE(candidacy_.ballot(wall).raises);
}

// Another claim may have had the lock since, with a fence in between: the greatest of the
// old votes is not enough.
TEST_F(QuorumTicket, raises_uneven_votes_to_its_own_fence_if_that_is_greater) {
  candidacy_.ballot(wall);
  after(candidacy_, {grants(5), fails(), fails()});
  const auto wanted = candidacy_.ballot(wall).fence;

  const auto step = after(candidacy_, {grants(5), grants(9), fails()});

  EXPECT_EQ(step.then, Then::ask);
  EXPECT_EQ(candidacy_.ballot(wall).fence, wanted);
  EXPECT_TRUE(candidacy_.ballot(wall).raises);
}

TEST_F(QuorumTicket, raises_old_votes_also_if_time_ran_out_before_a_fence_was_agreed_on) {
  after(candidacy_, {grants(5), grants(9), fails()});
  candidacy_.ran_out_of_time();
  candidacy_.begin();
  const auto wanted = candidacy_.ballot(wall).fence;

  const auto step = after(candidacy_, {grants(9), grants(9), fails()});

  EXPECT_EQ(step.then, Then::ask);
  EXPECT_EQ(candidacy_.ballot(wall).fence, wanted);
}

TEST_F(QuorumTicket, keeps_its_votes_longer_if_it_is_first_in_the_queue) {
  Candidacy next(Fence{}, false, most);
  for (int i = 0; i < 2; ++i) {
    after(candidacy_, {grants(5), busy(4, 2), busy(6, 2)});
    after(next, {busy(5, 1), grants(4), busy(6, 1)});
  }

  EXPECT_GT(next.gives_way_at(), candidacy_.gives_way_at());
}

TEST_F(QuorumTicket, a_claim_that_does_not_wait_releases_all_votes) {
  const auto step = after(candidacy_, {busy(4), busy(4), grants(5)}, Queue::stay_out);

  EXPECT_EQ(step.then, Then::done);
  EXPECT_TRUE(step.undoes);
}

TEST_F(QuorumTicket,
       a_claim_that_does_not_wait_retries_a_few_times_if_nobody_has_the_lock) {
  const Votes split{grants(5), busy(4), busy(6)};
  int tries = 1;
  while (after(candidacy_, split, Queue::stay_out).then == Then::give_back) ++tries;

  EXPECT_GT(tries, 2);
  EXPECT_LT(tries, 20);
}

TEST_F(QuorumTicket, a_claim_that_finds_the_queues_too_long_leaves_those_it_has_joined) {
  const auto step = after(candidacy_, {busy(4), busy(4), busy(4, 3)});

  EXPECT_TRUE(step.undoes);
  EXPECT_EQ(std::get<Busy>(std::get<Answer>(step.said)).place, 0u);
}

TEST_F(QuorumTicket, keeps_its_place_while_servers_are_unavailable) {
  const auto step = after(candidacy_, {busy(4, 1), fails(), fails()});

  EXPECT_TRUE(std::holds_alternative<Failure>(step.said));
  EXPECT_FALSE(step.undoes);
}

}  // namespace
}  // namespace dlock::redis_quorum
