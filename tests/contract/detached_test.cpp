// What lock/store.hpp promises about detached leases and fence registers, in every store.

#include <gtest/gtest.h>

#include <list>
#include <string>

#include "lease/holding.hpp"
#include "tests/contract/contender.hpp"

namespace dlock {
namespace {

using std::chrono::seconds;

class DetachedContract : public ::testing::TestWithParam<Kind> {
 protected:
  Contender& contender(const Claim& claim, milliseconds timeout = usual_timeout) {
    return contenders_.emplace_back(context_, *world_, claim, timeout);
  }
  Contender& attached() { return contender(claim_of("job")); }
  Contender& detached(milliseconds ttl = seconds(30), unsigned slots = 1) {
    auto claim = claim_of("job");
    claim.attached = false;
    claim.ttl = ttl;
    claim.slots = slots;
    return contender(claim);
  }
  // Another process that knows the token.
  Contender& who_knows_the_token_of(const Contender& other) {
    return contender(other.claim);
  }
  Contender& resource(const std::string& name = "disk") {
    return contender(claim_of(name));
  }

  // As if its process had ended.
  void end(Contender& contender) {
    contenders_.remove_if([&](const Contender& c) { return &c == &contender; });
  }

  LockInfo look() { return reader_.inspect(); }
  HolderInfo shown() { return look().holders.at(0); }
  bool comes_free() {
    return eventually(context_, [&] { return look().holders.empty(); });
  }

  // A lease that was granted and has expired.
  Contender& past() {
    auto& holder = detached(milliseconds(100));
    holder.granted();
    if (!comes_free()) throw std::runtime_error("a lease did not end");
    return holder;
  }

  static Failure::Kind failure_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Failure& failure) {
      return failure.kind();
    }
    throw std::logic_error("did not fail");
  }

  asio::io_context context_;
  std::unique_ptr<World> world_ = GetParam().make();
  std::list<Contender> contenders_;
  Contender reader_{context_, *world_, claim_of("job")};
};

INSTANTIATE_TEST_SUITE_P(stores, DetachedContract, ::testing::ValuesIn(kinds), name_of);

// How long a detached lease lasts

TEST_P(DetachedContract, a_detached_lease_excludes_others) {
  detached().granted();

  EXPECT_TRUE(attached().is_busy());
  EXPECT_TRUE(detached().is_busy());
}

TEST_P(DetachedContract, a_detached_lease_outlives_the_process_that_acquired_it) {
  auto& holder = detached();
  holder.granted();
  end(holder);

  EXPECT_TRUE(attached().is_busy());
}

TEST_P(DetachedContract, a_detached_lease_expires_at_its_ttl) {
  detached(milliseconds(300)).granted();

  EXPECT_TRUE(attached().is_busy());
  EXPECT_TRUE(comes_free());
  EXPECT_TRUE(attached().is_granted());
}

TEST_P(DetachedContract, the_deadline_of_a_detached_lease_is_not_after_its_end) {
  const auto before = Clock::now();
  const auto grant = detached(seconds(30)).granted();

  EXPECT_GT(grant.deadline, before + seconds(25));
  EXPECT_LE(grant.deadline, Clock::now() + seconds(30));
}

TEST_P(DetachedContract, a_repeated_claim_gets_its_full_ttl_again) {
  auto& holder = detached(milliseconds(800));
  const auto first = holder.granted();
  holder.claim.ttl = seconds(30);
  holder.start_anew();

  EXPECT_EQ(holder.granted().fence, first.fence);
  EXPECT_GT(shown().expires_in, seconds(20));
}

TEST_P(DetachedContract, a_waiter_is_granted_the_lock_when_a_detached_lease_expires) {
  auto& holder = detached(milliseconds(300));
  holder.granted();
  end(holder);
  auto& waiter = detached();
  const auto start = Clock::now();

  const auto answer = result_of(
      context_,
      acquire(waiter.claimant(), {start + seconds(9), {}, {}, {}}, waiter.wakeup));

  EXPECT_TRUE(std::holds_alternative<Grant>(answer));
  EXPECT_LT(Clock::now() - start, seconds(2) + GetParam().shortest_lease);
}

TEST_P(DetachedContract, a_waiter_for_a_detached_lease_has_a_place_in_the_queue) {
  auto& holder = attached();
  holder.granted();
  auto& waiter = detached();
  waiter.queued();
  attached().queued();
  holder.release();

  EXPECT_TRUE(waiter.is_granted());
  EXPECT_FALSE(shown().attached);
}

TEST_P(DetachedContract, as_many_detached_leases_are_granted_as_there_are_slots) {
  detached(seconds(30), 2).granted();

  EXPECT_EQ(detached(seconds(30), 2).granted().slot, 1u);
  EXPECT_TRUE(detached(seconds(30), 2).is_busy());
}

TEST_P(DetachedContract, a_slot_whose_detached_lease_expired_is_granted_again) {
  detached(seconds(30), 2).granted();
  detached(milliseconds(200), 2).granted();

  EXPECT_TRUE(
      eventually(context_, [&] { return detached(seconds(30), 2).is_granted(); }));
  EXPECT_TRUE(detached(seconds(30), 2).is_busy());
}

// What is shown of it

TEST_P(DetachedContract, a_detached_lease_shows_when_it_expires) {
  detached(seconds(30)).granted();

  EXPECT_FALSE(shown().attached);
  EXPECT_GT(shown().expires_in, seconds(25));
  EXPECT_LE(shown().expires_in, seconds(30));
}

TEST_P(DetachedContract, a_detached_lease_shows_the_process_that_it_was_acquired_for) {
  auto& holder = detached();
  holder.claim.on_behalf_of = 4711;
  holder.granted();

  EXPECT_EQ(shown().pid, 4711);
}

TEST_P(DetachedContract, an_expired_detached_lease_was_not_a_run) {
  past();

  EXPECT_FALSE(look().last_run);
  attached().granted();
  EXPECT_FALSE(look().last_run);
}

TEST_P(DetachedContract, a_detached_lease_does_not_deduplicate_a_run) {
  detached(milliseconds(300)).granted();
  auto& other = attached();
  other.claim.dedupe = Dedupe{seconds(3600), false};

  EXPECT_TRUE(other.is_busy());
  EXPECT_TRUE(comes_free());
  EXPECT_TRUE(other.is_granted());
}

TEST_P(DetachedContract, a_lock_kept_by_min_hold_can_be_neither_renewed_nor_released) {
  auto& holder = attached();
  holder.claim.min_hold = seconds(60);
  holder.granted();
  RunEnd end;
  end.exit_code = 0;
  end.outcome = "ran";
  holder.release(end);
  auto& other = detached();
  other.claim.token = {};

  EXPECT_NE(other.renew(), Renewal::confirmed);
  EXPECT_EQ(other.release(), Release::not_ours);
  EXPECT_TRUE(attached().is_busy());
}

TEST_P(DetachedContract, the_fence_after_a_detached_lease_is_greater) {
  auto& holder = detached(milliseconds(100));
  const auto fence = holder.granted().fence;
  ASSERT_TRUE(comes_free());

  EXPECT_GT(attached().granted().fence, fence);
}

// renew

TEST_P(DetachedContract, any_client_with_the_token_can_renew_a_detached_lease) {
  auto& holder = detached(milliseconds(500));
  holder.granted();
  auto& other = who_knows_the_token_of(holder);
  end(holder);
  other.claim.ttl = seconds(30);

  EXPECT_EQ(other.renew(), Renewal::confirmed);
  EXPECT_GT(shown().expires_in, seconds(25));
}

TEST_P(DetachedContract, a_renewal_counts_from_now_even_if_that_shortens_the_lease) {
  auto& holder = detached(seconds(1000));
  holder.granted();
  holder.claim.ttl = seconds(30);

  EXPECT_EQ(holder.renew(), Renewal::confirmed);
  EXPECT_LE(shown().expires_in, seconds(30));
}

TEST_P(DetachedContract, a_renewal_can_keep_the_ttl_that_the_lease_was_acquired_with) {
  auto& holder = detached(seconds(100));
  holder.granted();
  auto& other = who_knows_the_token_of(holder);
  other.claim.ttl = seconds(30);
  EXPECT_EQ(other.renew(), Renewal::confirmed);
  auto& keeping = who_knows_the_token_of(other);
  keeping.claim.keeps_ttl = true;

  EXPECT_EQ(result_of(context_, keeping.claimant().renew(keeping.wakeup)),
            Renewal::confirmed);
  EXPECT_EQ(keeping.claimant().claim().ttl, seconds(100));
  EXPECT_GT(shown().expires_in, seconds(90));
}

TEST_P(DetachedContract, a_waiter_is_notified_that_a_lease_ends_sooner) {
  auto& holder = detached(seconds(1000));
  holder.granted();
  auto& waiter = attached();
  const Patience forever{Clock::time_point::max(), {}, {}, {}};
  Task waiting(context_, acquire(waiter.claimant(), forever, waiter.wakeup));
  ASSERT_TRUE(eventually(context_, [&] { return look().waiters.size() == 1; }));
  holder.claim.ttl = milliseconds(200);

  holder.renew();

  EXPECT_TRUE(std::holds_alternative<Grant>(waiting.result()));
}

TEST_P(DetachedContract, one_of_many_slots_is_renewed_on_its_own) {
  auto& first = detached(seconds(30), 2);
  first.granted();
  auto& second = detached(milliseconds(400), 2);
  second.granted();
  first.claim.ttl = seconds(60);

  EXPECT_EQ(first.renew(), Renewal::confirmed);
  EXPECT_TRUE(eventually(context_, [&] { return look().holders.size() == 1; }));
  EXPECT_EQ(second.renew(), Renewal::gone);
  EXPECT_GT(shown().expires_in, seconds(50));
}

TEST_P(DetachedContract, detached_leases_of_readers_are_renewed_and_released_one_by_one) {
  auto& first = detached(seconds(30));
  first.claim.mode = Mode::shared;
  first.granted();
  auto& second = detached(seconds(60));
  second.claim.mode = Mode::shared;
  const auto fence = second.granted().fence;
  first.claim.ttl = seconds(100);

  EXPECT_EQ(first.renew(), Renewal::confirmed);
  EXPECT_EQ(look().holders.size(), 2u);
  EXPECT_EQ(first.release(), Release::released);

  EXPECT_EQ(look().holders.size(), 1u);
  EXPECT_EQ(shown().fence, fence);
  EXPECT_LE(shown().expires_in, seconds(60));
  EXPECT_EQ(second.release(), Release::released);
  EXPECT_TRUE(attached().is_granted());
}

TEST_P(DetachedContract, an_expired_lease_is_not_renewed) {
  auto& late = past();

  EXPECT_EQ(late.renew(), Renewal::gone);
  EXPECT_TRUE(attached().is_granted());
}

TEST_P(DetachedContract,
       an_expired_lease_is_not_renewed_while_another_claim_holds_the_lock) {
  auto& late = past();
  auto& next = detached(seconds(30));
  const auto fence = next.granted().fence;
  late.claim.ttl = seconds(1000);

  EXPECT_EQ(late.renew(), Renewal::taken_over);
  EXPECT_EQ(shown().fence, fence);
  EXPECT_LE(shown().expires_in, seconds(30));
}

TEST_P(DetachedContract, a_lease_that_was_never_granted_is_not_renewed) {
  EXPECT_EQ(detached().renew(), Renewal::gone);
  EXPECT_TRUE(look().holders.empty());
}

TEST_P(DetachedContract, a_waiter_cannot_renew) {
  attached().granted();
  auto& waiter = detached();
  waiter.queued();

  EXPECT_NE(waiter.renew(), Renewal::confirmed);
}

TEST_P(DetachedContract, a_waiter_that_was_promised_the_lock_cannot_renew) {
  auto& holder = attached();
  holder.granted();
  auto& waiter = detached();
  waiter.queued();
  holder.release();

  EXPECT_NE(waiter.renew(), Renewal::confirmed);
  EXPECT_TRUE(waiter.is_granted());
}

TEST_P(DetachedContract, a_lease_that_vanished_is_not_renewed) {
  auto& holder = detached();
  holder.granted();

  world_->wipe_out();

  EXPECT_EQ(holder.renew(), Renewal::gone);
}

// release

TEST_P(DetachedContract, any_client_with_the_token_can_release_a_detached_lease) {
  auto& holder = detached();
  holder.granted();
  auto& other = who_knows_the_token_of(holder);
  end(holder);

  EXPECT_EQ(other.release(), Release::released);
  EXPECT_TRUE(attached().is_granted());
}

TEST_P(DetachedContract, a_release_by_token_hands_the_lock_to_the_first_waiter) {
  auto& holder = detached();
  holder.granted();
  auto& waiter = attached();
  waiter.queued();
  attached().queued();
  Task sleep(context_, with_result(waiter.claimant().await_turn(endless(waiter.wakeup))));

  who_knows_the_token_of(holder).release();
  sleep.result();

  EXPECT_TRUE(waiter.is_granted());
}

TEST_P(DetachedContract, a_released_detached_lease_was_not_a_run) {
  auto& holder = detached();
  holder.granted();

  holder.release();

  EXPECT_FALSE(look().last_run);
}

TEST_P(DetachedContract, a_release_with_another_token_frees_nothing) {
  detached().granted();

  EXPECT_EQ(detached().release(), Release::not_ours);
  EXPECT_TRUE(attached().is_busy());
}

TEST_P(DetachedContract,
       an_expired_lease_is_not_released_while_another_claim_holds_the_lock) {
  auto& late = past();
  const auto fence = attached().granted().fence;

  EXPECT_EQ(late.release(), Release::not_ours);
  EXPECT_EQ(shown().fence, fence);
}

TEST_P(DetachedContract, an_expired_lease_is_not_released) {
  EXPECT_EQ(past().release(), Release::not_ours);
}

TEST_P(DetachedContract, a_release_in_an_unused_store_frees_nothing) {
  EXPECT_EQ(detached().release(), Release::not_ours);
}

// admit_fence

TEST_P(DetachedContract, a_resource_admits_its_first_fence) {
  EXPECT_EQ(resource().admit(7), Admission::admitted);
}

TEST_P(DetachedContract, a_resource_admits_a_greater_fence_and_the_same_again) {
  resource().admit(7);

  EXPECT_EQ(resource().admit(8), Admission::admitted);
  EXPECT_EQ(resource().admit(8), Admission::admitted);
  EXPECT_EQ(resource().admit(10), Admission::admitted);
}

TEST_P(DetachedContract, a_resource_does_not_admit_a_smaller_fence) {
  resource().admit(10);

  EXPECT_EQ(resource().admit(9), Admission::stale);
  EXPECT_EQ(resource().admit(10), Admission::admitted);
}

TEST_P(DetachedContract, the_greatest_fences_are_distinguished_to_the_last_digit) {
  constexpr std::uint64_t greatest = INT64_MAX;
  resource().admit(greatest - 1);

  EXPECT_EQ(resource().admit(greatest), Admission::admitted);
  EXPECT_EQ(resource().admit(greatest - 1), Admission::stale);
}

TEST_P(DetachedContract, resources_are_independent_of_each_other) {
  resource("disk").admit(10);
  auto& elsewhere = resource("disk");
  elsewhere.claim.lock.name_space = "other";

  EXPECT_EQ(resource("disk 2").admit(1), Admission::admitted);
  EXPECT_EQ(resource("di").admit(1), Admission::admitted);
  EXPECT_EQ(elsewhere.admit(1), Admission::admitted);
  EXPECT_EQ(resource("disk").admit(9), Admission::stale);
}

TEST_P(DetachedContract, a_resource_is_independent_of_a_lock_with_the_same_name) {
  auto& holder = resource("job");
  holder.granted();

  EXPECT_EQ(resource("job").admit(1), Admission::admitted);
  holder.release();
  EXPECT_TRUE(look().holders.empty());
  EXPECT_EQ(resource("job").admit(1), Admission::admitted);
}

TEST_P(DetachedContract, resources_are_not_listed_as_locks) {
  auto& reader = resource();
  reader.admit(1);

  EXPECT_TRUE(result_of(context_, reader.store->inspector().list(
                                      "dlock", [](const std::string&) { return true; },
                                      reader.wakeup))
                  .empty());
}

// A service that does not reply

TEST_P(DetachedContract, a_store_that_does_not_answer_is_unreachable) {
  auto claim = claim_of("job");
  claim.attached = false;
  auto& holder = contender(claim, GetParam().brief_timeout);
  holder.granted();
  const auto obstacle = world_->hold_up();

  EXPECT_EQ(failure_of([&] { holder.renew(); }), Failure::Kind::unreachable);
  EXPECT_EQ(failure_of([&] { holder.release(); }), Failure::Kind::unreachable);
  EXPECT_EQ(failure_of([&] { holder.admit(1); }), Failure::Kind::unreachable);
}

}  // namespace
}  // namespace dlock
