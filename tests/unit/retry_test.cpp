// How long something that fails, or is woken too often, pauses.

#include <gtest/gtest.h>

#include "loop/wakeup.hpp"

namespace dlock {
namespace {

using namespace std::chrono_literals;

class RestraintOf : public ::testing::Test {
 protected:
  // Wakes `count` times, each time `apart` after it has paused, and counts the pauses.
  int pauses(int count, milliseconds apart) {
    int paused = 0;
    for (int i = 0; i < count; ++i) {
      last_ = restraint_.pause(now_);
      if (last_ > 0ms) ++paused;
      now_ += last_ + apart;
    }
    return paused;
  }

  Clock::time_point now_{1h};
  Restraint restraint_{8};
  milliseconds last_{};
};

TEST(GrowingPause, doubles_after_each_failure_up_to_its_limit) {
  GrowingPause pause;
  const milliseconds expected[] = {100ms, 200ms, 400ms, 800ms, 1600ms, 2s, 2s};

  for (const auto one : expected) EXPECT_EQ(pause.next(), one);
}

TEST(GrowingPause, is_short_again_after_a_success) {
  GrowingPause pause(250ms, 20ms);
  for (int i = 0; i < 1000; ++i) pause.next();
  EXPECT_EQ(pause.next(), 250ms);

  pause.reset();

  EXPECT_EQ(pause.next(), 20ms);
}

TEST_F(RestraintOf, the_first_wake_ups_is_none) { EXPECT_EQ(pauses(8, 0ms), 0); }

TEST_F(RestraintOf, wake_ups_that_are_rare_is_none) {
  EXPECT_EQ(pauses(1000, Restraint::interval), 0);
}

TEST_F(RestraintOf, endless_wake_ups_lets_five_a_second_through) {
  pauses(8, 0ms);
  const auto began = now_;

  pauses(100, 0ms);

  EXPECT_GE(now_ - began, 18s);
  EXPECT_EQ(last_, Restraint::interval);
}

TEST_F(RestraintOf, wake_ups_that_have_just_become_too_many_is_short) {
  pauses(8, 0ms);

  EXPECT_EQ(restraint_.pause(now_), 40ms);
}

TEST_F(RestraintOf, a_flood_ends_some_seconds_after_it) {
  pauses(100, 0ms);
  now_ += 10s;

  EXPECT_EQ(pauses(8, 0ms), 0);
}

}  // namespace
}  // namespace dlock
