// The store `none:` grants everything and remembers nothing.

#include <gtest/gtest.h>

#include "store/open.hpp"
#include "tests/contract/await.hpp"

namespace dlock {
namespace {

class NoStore : public ::testing::Test {
 protected:
  Answer ask(Claimant& claimant) {
    return result_of(context_, claimant.ask(Queue::stay_out, wakeup_));
  }
  Answer ask() { return ask(*claimant_); }
  Answer ask_as_another() { return ask(*opened()->claimant(claim_)); }
  std::unique_ptr<Store> opened() {
    return open_store(parsed_store_url("none:"), milliseconds(1000), context_);
  }

  asio::io_context context_;
  Wakeup wakeup_{context_};
  Claim claim_;
  std::unique_ptr<Store> opened_ = opened();
  Store& store_ = *opened_;
  std::unique_ptr<Claimant> claimant_ = store_.claimant(claim_);
};

TEST_F(NoStore, grants_everything_to_everybody) {
  EXPECT_TRUE(std::holds_alternative<Grant>(ask()));
  EXPECT_TRUE(std::holds_alternative<Grant>(ask_as_another()));
}

TEST_F(NoStore, reports_that_it_protects_nothing) {
  EXPECT_FALSE(store_.protects());
  EXPECT_EQ(store_.url(), "none:");
}

TEST_F(NoStore, a_repeated_claim_finds_its_own_grant) {
  const auto first = std::get<Grant>(ask()).fence;

  EXPECT_EQ(std::get<Grant>(ask()).fence, first);
  EXPECT_GT(first.number, 0u);
}

TEST_F(NoStore, a_grant_never_expires) {
  EXPECT_EQ(std::get<Grant>(ask()).deadline, Clock::time_point::max());
}

TEST_F(NoStore, releases_whatever_is_asked) {
  EXPECT_EQ(result_of(context_, claimant_->release(std::nullopt, wakeup_)),
            Release::released);
}

TEST_F(NoStore, renews_whatever_is_asked) {
  EXPECT_EQ(result_of(context_, claimant_->renew(wakeup_)), Renewal::confirmed);
}

TEST_F(NoStore, admits_every_fence) {
  for (const std::uint64_t fence : {10u, 9u}) {
    EXPECT_EQ(
        result_of(context_, store_.admit_fence({"dlock", "disk"}, Fence{fence}, wakeup_)),
        Admission::admitted);
  }
}

TEST_F(NoStore, remembers_nothing) {
  ask();

  const auto info =
      result_of(context_, store_.inspector().inspect({"dlock", "job"}, wakeup_));
  const auto locks =
      result_of(context_, store_.inspector().list(
                              "dlock", [](const std::string&) { return true; }, wakeup_));

  EXPECT_EQ(info.lock.name, "job");
  EXPECT_TRUE(info.holders.empty());
  EXPECT_TRUE(locks.empty());
}

TEST_F(NoStore, no_run_deduplicates_another) {
  claim_.dedupe = Dedupe{std::chrono::hours(1), false};
  claimant_ = store_.claimant(claim_);
  ask();
  EXPECT_TRUE(std::holds_alternative<Grant>(ask_as_another()));
  result_of(context_, claimant_->release(RunEnd{}, wakeup_));
  EXPECT_TRUE(std::holds_alternative<Grant>(ask()));
}

TEST_F(NoStore, has_nothing_to_break) {
  const auto fence = std::get<Grant>(ask()).fence;
  const Break order{{fence}};
  const LockName lock{"dlock", "job"};
  bool none = false;
  const auto look = [&]() -> asio::awaitable<Nothing> {
    none = (co_await store_.break_leases(lock, order, wakeup_)).empty();
    co_return Nothing{};
  };

  result_of(context_, look());

  EXPECT_TRUE(none);
}

TEST_F(NoStore, has_no_runs) {
  ask();

  EXPECT_TRUE(
      result_of(context_, store_.inspector().history({"dlock", "job"}, wakeup_)).empty());
}

TEST_F(NoStore, keeps_no_lock_after_a_run) {
  claim_.min_hold = std::chrono::hours(1);
  ask();
  result_of(context_, claimant_->release(RunEnd{}, wakeup_));

  const auto info =
      result_of(context_, store_.inspector().inspect({"dlock", "job"}, wakeup_));

  EXPECT_TRUE(info.holders.empty());
  EXPECT_TRUE(std::holds_alternative<Grant>(ask()));
}

}  // namespace
}  // namespace dlock
