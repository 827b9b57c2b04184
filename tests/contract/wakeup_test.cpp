// When a coroutine sleeps, and what ends its sleep.

#include "loop/wakeup.hpp"

#include <gtest/gtest.h>

#include "tests/contract/await.hpp"

namespace dlock {
namespace {

constexpr auto forever = Clock::time_point::max();

class Sleep : public ::testing::Test {
 protected:
  Task<Nothing> sleep_until(Clock::time_point moment) {
    return {context_, with_result(wakeup_.wait_until(moment))};
  }

  // Runs everything that needs no waiting.
  void settle() {
    context_.restart();
    context_.poll();
  }

  asio::io_context context_;
  Wakeup wakeup_{context_};
};

TEST_F(Sleep, lasts_until_its_moment) {
  const auto moment = Clock::now() + milliseconds(30);

  sleep_until(moment).result();

  EXPECT_GE(Clock::now(), moment);
}

TEST_F(Sleep, returns_at_once_if_its_moment_is_past) {
  EXPECT_NO_THROW(sleep_until(Clock::now() - milliseconds(1)).result());
  EXPECT_NO_THROW(sleep_until(Clock::time_point{}).result());
}

TEST_F(Sleep, without_an_end_lasts_while_nothing_happens) {
  const auto sleep = sleep_until(forever);

  settle();

  EXPECT_FALSE(sleep.is_done());
}

TEST_F(Sleep, ends_with_a_notification) {
  auto sleep = sleep_until(forever);
  settle();

  wakeup_.notify();

  EXPECT_NO_THROW(sleep.result());
}

TEST_F(Sleep, ends_at_once_after_an_unread_notification) {
  wakeup_.notify();

  EXPECT_NO_THROW(sleep_until(forever).result());
}

TEST_F(Sleep, is_ended_only_once_by_a_notification) {
  wakeup_.notify();
  sleep_until(forever).result();
  const auto second = sleep_until(forever);

  settle();

  EXPECT_FALSE(second.is_done());
}

TEST_F(Sleep, has_a_moment_of_its_own_each_time) {
  auto first = sleep_until(Clock::now() + std::chrono::hours(1));
  settle();
  wakeup_.notify();
  first.result();

  EXPECT_NO_THROW(sleep_until(Clock::now() + milliseconds(10)).result());
}

TEST_F(Sleep, ends_when_it_is_told_to_give_up) {
  auto sleep = sleep_until(forever);
  settle();

  wakeup_.give_up(true);

  EXPECT_NO_THROW(sleep.result());
  EXPECT_TRUE(wakeup_.gives_up());
}

TEST_F(Sleep, ends_at_once_until_giving_up_is_taken_back) {
  wakeup_.give_up(true);
  sleep_until(forever).result();
  const bool still = wakeup_.gives_up();

  wakeup_.give_up(false);

  EXPECT_TRUE(still);
  EXPECT_FALSE(wakeup_.gives_up());
}

}  // namespace
}  // namespace dlock
