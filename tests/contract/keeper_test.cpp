// When the keeper renews a lease, and what it reports to the watcher.

#include "lease/keeper.hpp"

#include <gtest/gtest.h>

#include <deque>

#include "tests/contract/await.hpp"
#include "util/failure.hpp"

namespace dlock {
namespace {

class Watcher final : public LeaseWatcher {
 public:
  void extend(Clock::time_point until) override { deadline = until; }
  void reclaimed() override { reclaimed_at = deadline; }
  void forfeit(Loss loss) override { lost = loss; }
  void renewal_failed(Clock::time_point, const std::string& reason) override {
    ++failures;
    why = reason;
  }

  Clock::time_point deadline{};
  int failures = 0;
  std::string why;                                // the last of them
  std::optional<Clock::time_point> reclaimed_at;  // the deadline at that time
  std::optional<Loss> lost;
};

// Answers renewals one by one; std::nullopt is an unreachable store. After the last
// answer it confirms every renewal.
class Answerer final : public Claimant {
 public:
  Answerer() : Claimant(Claim{}) {}

  asio::awaitable<Answer> ask(Queue, Wakeup&) override { co_return Grant{}; }
  asio::awaitable<void> await_turn(Wakeup&, Clock::time_point) override { co_return; }
  asio::awaitable<Release> release(const std::optional<RunEnd>&, Wakeup&) override {
    co_return Release::released;
  }
  asio::awaitable<Renewal> renew(Wakeup&) override {
    ++asked;
    if (answers.empty()) co_return Renewal::confirmed;
    const auto answer = answers.front();
    answers.pop_front();
    if (!answer) throw Failure(Failure::Kind::unreachable, "not there");
    co_return *answer;
  }
  std::unique_ptr<LeaseNews> listen(std::function<void()> on_news) override {
    callback = std::move(on_news);
    return can_listen ? std::make_unique<LeaseNews>() : nullptr;
  }

  std::deque<std::optional<Renewal>> answers;
  int asked = 0;
  bool can_listen = true;
  std::function<void()> callback;
};

class Keeper : public ::testing::Test {
 protected:
  void keep(bool can_expire = true) {
    keeper_.emplace(context_, claimant_, can_expire, timing_, watcher_);
    keeper_->start(granted_at_);
  }
  bool comes_true(const std::function<bool()>& is_true) {
    return eventually(context_, is_true);
  }
  // Whether nothing is asked during this time.
  bool asks_no_more(milliseconds span) {
    const auto before = claimant_.asked;
    context_.restart();
    context_.run_for(span);
    return claimant_.asked == before;
  }

  asio::io_context context_;
  LeaseTiming timing_{milliseconds(600), milliseconds(5000), milliseconds(60)};
  Clock::time_point granted_at_ = Clock::now();
  Watcher watcher_;
  Answerer claimant_;
  std::deque<std::optional<Renewal>>& answers_ = claimant_.answers;
  int& asked_ = claimant_.asked;
  std::optional<LeaseKeeper> keeper_;
};

TEST_F(Keeper, a_renewed_lease_holds_for_its_full_ttl_from_the_request) {
  keep();

  ASSERT_TRUE(comes_true([&] { return asked_ == 1 && watcher_.deadline > granted_at_; }));
  EXPECT_GE(watcher_.deadline, timing_.deadline(granted_at_ + milliseconds(180)));
  EXPECT_LE(watcher_.deadline, timing_.deadline(Clock::now()));
}

TEST_F(Keeper, nothing_is_renewed_before_it_is_due) {
  keep();

  ASSERT_TRUE(comes_true([&] { return asked_ == 1; }));
  EXPECT_GE(Clock::now(), granted_at_ + milliseconds(180));
}

TEST_F(Keeper, a_failed_renewal_leaves_the_deadline_and_is_retried) {
  answers_ = {std::nullopt, std::nullopt};
  keep();

  ASSERT_TRUE(comes_true([&] { return asked_ == 2; }));
  EXPECT_EQ(watcher_.deadline, Clock::time_point{});
  ASSERT_TRUE(comes_true([&] { return watcher_.deadline != Clock::time_point{}; }));
  EXPECT_FALSE(watcher_.lost);
}

TEST_F(Keeper, a_lease_that_is_gone_is_reported_once_and_no_longer_renewed) {
  answers_ = {Renewal::gone};
  keep();

  ASSERT_TRUE(comes_true([&] { return watcher_.lost.has_value(); }));
  EXPECT_EQ(watcher_.lost, Loss::gone);
  EXPECT_EQ(asked_, 1);
  EXPECT_TRUE(asks_no_more(milliseconds(500)));
}

TEST_F(Keeper,
       a_lease_that_is_gone_is_reported_within_a_third_of_the_ttl_of_the_last_renewal) {
  answers_ = {Renewal::confirmed, Renewal::gone};
  keep();
  ASSERT_TRUE(comes_true([&] { return asked_ == 1; }));
  const auto wiped_at = Clock::now();

  ASSERT_TRUE(comes_true([&] { return watcher_.lost.has_value(); }));

  // Plus the time that a busy machine may take to wake a process.
  EXPECT_LT(Clock::now() - wiped_at, timing_.renew_every() + milliseconds(200));
}

TEST_F(Keeper, a_lease_that_is_gone_is_reported_soon_after_a_failed_renewal) {
  answers_ = {std::nullopt, std::nullopt, Renewal::gone};
  keep();
  ASSERT_TRUE(comes_true([&] { return asked_ == 1; }));
  const auto failed_at = Clock::now();

  ASSERT_TRUE(comes_true([&] { return watcher_.lost.has_value(); }));

  EXPECT_LT(Clock::now() - failed_at, 2 * timing_.longest_retry() + milliseconds(200));
}

TEST_F(Keeper, a_lease_that_was_set_up_again_is_reported_as_such_and_extended) {
  answers_ = {Renewal::reclaimed};
  keep();

  ASSERT_TRUE(comes_true([&] { return watcher_.reclaimed_at.has_value(); }));
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(watcher_.reclaimed_at, Clock::time_point{});
  EXPECT_GT(watcher_.deadline, timing_.deadline(granted_at_));
  EXPECT_FALSE(watcher_.lost);
}

TEST_F(Keeper, a_lease_that_was_only_renewed_is_not_reported_as_set_up_again) {
  keep();

  ASSERT_TRUE(comes_true([&] { return asked_ == 2; }));
  EXPECT_FALSE(watcher_.reclaimed_at);
}

TEST_F(Keeper, a_lease_that_was_taken_over_is_reported_as_such) {
  answers_ = {Renewal::confirmed, Renewal::taken_over};
  keep();

  ASSERT_TRUE(comes_true([&] { return watcher_.lost.has_value(); }));
  EXPECT_EQ(watcher_.lost, Loss::taken_over);
}

TEST_F(Keeper, a_broken_lease_is_reported_once_and_renewed_until_the_holder_has_ended) {
  answers_ = {Renewal::broken, Renewal::broken};
  keep();

  ASSERT_TRUE(comes_true([&] { return asked_ == 1 && watcher_.lost.has_value(); }));
  EXPECT_EQ(watcher_.lost, Loss::broken);
  EXPECT_GT(watcher_.deadline, timing_.deadline(granted_at_));
  watcher_.lost.reset();
  ASSERT_TRUE(comes_true([&] { return asked_ == 3; }));
  EXPECT_FALSE(watcher_.lost);
}

TEST_F(Keeper, renews_at_once_when_notified_and_then_at_its_usual_interval) {
  timing_ = {milliseconds(9000), milliseconds(5000), milliseconds(60)};
  keep();
  ASSERT_TRUE(comes_true([&] { return claimant_.callback != nullptr; }));
  EXPECT_EQ(asked_, 0);

  claimant_.callback();

  ASSERT_TRUE(comes_true([&] { return asked_ == 1; }));
  EXPECT_LT(Clock::now(), granted_at_ + milliseconds(2500));
  EXPECT_TRUE(asks_no_more(milliseconds(500)));
}

TEST_F(Keeper, does_nothing_once_stopped) {
  keep();

  keeper_->stop();

  EXPECT_TRUE(asks_no_more(milliseconds(500)));
  EXPECT_EQ(watcher_.deadline, Clock::time_point{});
}

TEST_F(Keeper, checks_a_lease_that_never_expires_once_and_then_when_notified) {
  keep(false);

  ASSERT_TRUE(comes_true([&] { return asked_ == 1; }));
  EXPECT_GE(Clock::now(), granted_at_ + milliseconds(1000));
  EXPECT_TRUE(asks_no_more(milliseconds(1500)));
  claimant_.answers = {Renewal::broken};
  claimant_.callback();
  ASSERT_TRUE(comes_true([&] { return watcher_.lost.has_value(); }));
  EXPECT_EQ(watcher_.lost, Loss::broken);
  EXPECT_EQ(watcher_.deadline, Clock::time_point{});
}

TEST_F(Keeper, checks_a_lease_without_notifications_every_second) {
  claimant_.can_listen = false;
  keep(false);

  ASSERT_TRUE(comes_true([&] { return asked_ == 3; }));
  EXPECT_GE(Clock::now(), granted_at_ + milliseconds(3000));
}

TEST_F(Keeper, reports_each_failed_renewal) {
  answers_ = {std::nullopt, std::nullopt, Renewal::confirmed};
  keep();

  ASSERT_TRUE(comes_true([this] { return asked_ == 3; }));

  EXPECT_EQ(watcher_.failures, 2);
  EXPECT_EQ(watcher_.why, "not there");
}

}  // namespace
}  // namespace dlock
