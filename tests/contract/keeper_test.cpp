// When the keeper renews a lease, what it reports to the watcher, and what is known of a
// lease that is held.

#include "lease/keeper.hpp"

#include <gtest/gtest.h>

#include <deque>

#include "lease/holding.hpp"
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
  explicit Answerer(const Claim& claim = Claim{}) : Claimant(claim) {}

  // Grants a lease with so little left that it has to be requested again.
  asio::awaitable<Answer> ask(Queue, Wakeup&) override {
    ++requested;
    Grant grant;
    grant.deadline = Clock::now();
    co_return grant;
  }
  asio::awaitable<void> await_turn(Call) override { co_return; }
  asio::awaitable<Release> release(const std::optional<RunEnd>&, Wakeup&) override {
    ++released;
    if (released <= refused_releases) {
      throw Failure(Failure::Kind::unreachable, "not there");
    }
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
  int requested = 0;
  int released = 0;
  int refused_releases = 0;
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

// Has one claimant.
class AnsweringStore final : public Store {
 public:
  std::string url() const override { return "answers:"; }
  bool leases_expire() const override { return true; }
  std::unique_ptr<Claimant> claimant(const Claim& claim) override {
    auto made = std::make_unique<Answerer>(claim);
    answerer = made.get();
    return made;
  }
  asio::awaitable<std::vector<Broken>> break_leases(const LockName&, const Break&,
                                                    Wakeup&) override {
    co_return std::vector<Broken>{};
  }
  asio::awaitable<Admission> admit_fence(const LockName&, Fence, Wakeup&) override {
    co_return Admission::admitted;
  }
  LockInspector& inspector() override { throw std::logic_error("not used"); }

  Answerer* answerer = nullptr;
};

class Held : public ::testing::Test {
 protected:
  Held() { result_of(context_, holding_.take_over()); }

  bool comes_true(const std::function<bool()>& is_true) {
    return eventually(context_, is_true);
  }

  asio::io_context context_;
  Wakeup wakeup_{context_};
  AnsweringStore store_;
  LeaseTiming timing_{milliseconds(600), milliseconds(5000), milliseconds(60)};
  Holding holding_{context_, wakeup_, store_, Claim{}, timing_};
};

TEST_F(Held, a_lease_with_too_little_left_is_requested_again_three_times) {
  for (int i = 0; i < 3; ++i) {
    const auto answer = result_of(context_, holding_.ask_again());
    EXPECT_TRUE(std::holds_alternative<Grant>(answer));
    EXPECT_FALSE(holding_.lasts(milliseconds(1)));
  }

  EXPECT_THROW(result_of(context_, holding_.ask_again()), Failure);
  EXPECT_EQ(store_.answerer->requested, 3);
}

TEST_F(Held, the_deadline_moves_with_each_renewal) {
  const auto first = holding_.grant()->deadline;
  holding_.prepare_to_keep(nullptr);
  holding_.keep();

  EXPECT_TRUE(comes_true([&] { return holding_.grant()->deadline > first; }));
  EXPECT_TRUE(holding_.lasts(milliseconds(100)));
}

TEST_F(Held, it_is_known_why_the_last_renewal_failed_until_one_succeeds) {
  store_.answerer->answers = {std::nullopt};
  holding_.prepare_to_keep(nullptr);
  holding_.keep();

  ASSERT_TRUE(comes_true([&] { return holding_.why_not_renewed().has_value(); }));
  EXPECT_EQ(holding_.why_not_renewed(), "not there");
  EXPECT_TRUE(comes_true([&] { return !holding_.why_not_renewed(); }));
}

TEST_F(Held, a_certain_loss_is_known_and_wakes_its_owner) {
  store_.answerer->answers = {Renewal::taken_over};
  holding_.prepare_to_keep(nullptr);
  holding_.keep();

  result_of(context_, wakeup_.wait_until(Clock::time_point::max()));

  EXPECT_EQ(holding_.lost(), Loss::taken_over);
}

TEST_F(Held, a_release_is_repeated_until_it_succeeds) {
  store_.answerer->refused_releases = 2;
  const std::optional<RunEnd> no_run;

  EXPECT_TRUE(result_of(context_, holding_.release_by(Clock::time_point::max(), no_run,
                                                      milliseconds(1), false)));
  EXPECT_EQ(store_.answerer->released, 3);
}

TEST_F(Held, a_release_is_tried_once_if_no_time_is_left) {
  store_.answerer->refused_releases = 2;
  const std::optional<RunEnd> no_run;

  EXPECT_FALSE(result_of(
      context_, holding_.release_by(Clock::now(), no_run, milliseconds(1), false)));
  EXPECT_EQ(store_.answerer->released, 1);
}

}  // namespace
}  // namespace dlock
