// Asks for a lock until it is granted or the wait is over.

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "lease/holding.hpp"
#include "tests/contract/await.hpp"
#include "tests/contract/faulty_store.hpp"
#include "tests/contract/memory_store.hpp"

namespace dlock {
namespace {

constexpr auto forever = Clock::time_point::max();

Claim claim_with(std::uint8_t token) {
  Claim claim;
  claim.lock = {"dlock", "job"};
  claim.token.bytes.fill(token);
  return claim;
}

std::map<int, Fault> failing(std::initializer_list<int> calls, Failure::Kind kind) {
  std::map<int, Fault> faults;
  for (const int call : calls) faults.insert({call, {Failure(kind, "broken")}});
  return faults;
}

class Acquire : public ::testing::Test {
 protected:
  // Another claim takes the lock, or releases it.
  void occupy() { result_of(context_, occupant_->ask(Queue::stay_out, holder_wakeup_)); }
  void vacate() { result_of(context_, occupant_->release(std::nullopt, holder_wakeup_)); }

  void break_calls(std::map<int, Fault> faults) { faults_ = std::move(faults); }

  Task<Answer> acquire_until(std::optional<Clock::time_point> until) {
    patience_.until = until;
    claimant_ = store_.claimant(claim_);
    faulty_.emplace(*claimant_, faults_);
    return {context_, acquire(*faulty_, patience_, wakeup_)};
  }

  Failure::Kind failure_of(Task<Answer> task) {
    try {
      task.result();
    } catch (const Failure& failure) {
      return failure.kind();
    }
    throw std::logic_error("did not fail");
  }

  static bool is_granted(Task<Answer> task) {
    return std::holds_alternative<Grant>(task.result());
  }
  static bool is_busy(Task<Answer> task) {
    return std::holds_alternative<Busy>(task.result());
  }

  rules::State& state() { return service_.locks[claim_.lock].state; }
  std::size_t queue() { return state().waiters.size(); }

  asio::io_context context_;
  MemoryService service_;
  Claim holder_ = claim_with(1);
  Wakeup holder_wakeup_{context_};
  MemoryStore store_{context_, service_, milliseconds(100)};
  std::unique_ptr<Claimant> occupant_ = store_.claimant(holder_);
  Claim claim_ = claim_with(2);
  Wakeup wakeup_{context_};
  std::unique_ptr<Claimant> claimant_;
  std::map<int, Fault> faults_;
  std::optional<FaultyClaimant> faulty_;
  Patience patience_;
};

TEST_F(Acquire, a_free_lock_is_granted_at_the_first_request) {
  EXPECT_TRUE(is_granted(acquire_until(forever)));
  EXPECT_EQ(faulty_->calls(), 1);
}

TEST_F(Acquire,
       without_a_wait_a_busy_lock_is_requested_once_and_the_claim_does_not_queue) {
  occupy();

  EXPECT_TRUE(is_busy(acquire_until(std::nullopt)));
  EXPECT_EQ(faulty_->calls(), 1);
  EXPECT_EQ(queue(), 0u);
}

TEST_F(Acquire, with_a_wait_the_claim_queues_until_the_lock_is_released) {
  occupy();
  auto task = acquire_until(forever);
  EXPECT_TRUE(eventually(context_, [&] { return queue() == 1; }));
  EXPECT_FALSE(task.is_done());

  vacate();

  EXPECT_TRUE(is_granted(task));
}

TEST_F(Acquire, a_waiter_is_told_the_holder_and_its_position) {
  occupy();
  std::vector<Busy> told;
  patience_.waiting = [&](const Busy& busy) {
    told.push_back(busy);
    return milliseconds::max();
  };
  auto task = acquire_until(forever);

  eventually(context_, [&] { return !told.empty(); });

  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told[0].place, 1u);
  EXPECT_EQ(told[0].holders.size(), 1u);
}

TEST_F(Acquire, no_wait_is_reported_for_a_free_lock) {
  bool told = false;
  patience_.waiting = [&](const Busy&) {
    told = true;
    return milliseconds::max();
  };

  acquire_until(forever).result();

  EXPECT_FALSE(told);
}

TEST_F(Acquire, a_lock_is_busy_when_the_wait_is_over_and_that_is_counted_once) {
  occupy();

  EXPECT_TRUE(is_busy(acquire_until(Clock::now() + milliseconds(20))));
  EXPECT_EQ(state().refused, 1u);
  EXPECT_TRUE(is_busy(acquire_until(Clock::now() - milliseconds(1))));
  EXPECT_EQ(faulty_->calls(), 1);
}

// The answer arrives when the wait is over, and the request was sent before that.
TEST_F(Acquire, a_wait_that_ended_during_a_slow_request_is_counted_once) {
  occupy();
  const auto until = Clock::now() + milliseconds(20);
  patience_.waiting = [&](const Busy&) {
    while (Clock::now() < until) {
    }
    return milliseconds::max();
  };

  EXPECT_TRUE(is_busy(acquire_until(until)));

  EXPECT_EQ(state().refused, 1u);
}

TEST_F(Acquire, what_waiting_cannot_change_is_answered_at_once) {
  occupy();
  claim_.outer_fences = {state().holders.at(0).fence};
  EXPECT_TRUE(std::holds_alternative<HeldByOuterRun>(acquire_until(forever).result()));
  claim_.slots = 2;
  EXPECT_TRUE(std::holds_alternative<SlotsDiffer>(acquire_until(forever).result()));
}

TEST_F(Acquire, without_a_wait_an_unreachable_store_is_a_failure_at_once) {
  break_calls(failing({1}, Failure::Kind::unreachable));

  EXPECT_EQ(failure_of(acquire_until(std::nullopt)), Failure::Kind::unreachable);
  EXPECT_EQ(faulty_->calls(), 1);
}

TEST_F(Acquire, with_a_wait_an_unreachable_store_is_tried_again) {
  break_calls(failing({1, 2}, Failure::Kind::unreachable));

  EXPECT_TRUE(is_granted(acquire_until(forever)));
  EXPECT_EQ(faulty_->calls(), 3);
}

TEST_F(Acquire, a_retry_is_reported_with_its_reason) {
  break_calls(failing({1}, Failure::Kind::unreachable));
  std::vector<std::string> told;
  patience_.retrying = [&](const Failure& failure) { told.emplace_back(failure.what()); };

  acquire_until(forever).result();

  EXPECT_EQ(told, std::vector<std::string>{"broken"});
}

TEST_F(Acquire, a_failure_that_lasts_ends_the_wait_at_once) {
  for (const auto kind : {Failure::Kind::rejected, Failure::Kind::misconfigured,
                          Failure::Kind::exhausted}) {
    break_calls(failing({1}, kind));
    EXPECT_EQ(failure_of(acquire_until(forever)), kind);
    EXPECT_EQ(faulty_->calls(), 1);
  }
  occupy();
  break_calls(failing({2}, Failure::Kind::rejected));

  EXPECT_EQ(failure_of(acquire_until(forever)), Failure::Kind::rejected);
  EXPECT_EQ(faulty_->calls(), 2);
}

}  // namespace
}  // namespace dlock
