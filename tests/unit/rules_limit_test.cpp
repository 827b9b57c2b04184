// The rules of rate limits, one by one and under random histories.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "record/states.hpp"

namespace dlock::rules {
namespace {

using std::chrono::seconds;

Token token(unsigned who) {
  Token token;
  for (std::size_t i = 0; i < sizeof who; ++i) {
    token.bytes[i] = static_cast<std::uint8_t>(who >> (8 * i));
  }
  return token;
}

class Limit : public ::testing::Test {
 protected:
  RateAnswer ask(unsigned who, milliseconds patience = milliseconds(0)) {
    return admit(state_, {{"dlock", "api"}, token(who), rate_, patience}, now_);
  }
  bool is_admitted(unsigned who, milliseconds patience = milliseconds(0)) {
    return std::holds_alternative<Admitted>(ask(who, patience));
  }
  // The turn of a claim that would wait for an hour.
  milliseconds turn_of(unsigned who) {
    const auto answer = std::get<NotAdmitted>(ask(who, std::chrono::hours(1)));
    EXPECT_TRUE(answer.has_turn);
    return answer.next_in;
  }
  void fill() {
    for (unsigned who = 1000; who < 1000 + rate_.most; ++who) {
      ASSERT_TRUE(is_admitted(who));
    }
  }

  Rate rate_{3, milliseconds(800)};
  LimitState state_;
  Clock::time_point now_{seconds(1000)};
};

TEST_F(Limit, admits_the_rate_and_then_says_when_the_next_can_be_admitted) {
  EXPECT_EQ(std::get<Admitted>(ask(1)).remaining, 2u);
  now_ += milliseconds(100);
  EXPECT_EQ(std::get<Admitted>(ask(2)).next_in.count(), 0);
  const auto last = std::get<Admitted>(ask(3));
  const auto refused = std::get<NotAdmitted>(ask(4));

  EXPECT_EQ(last.remaining, 0u);
  EXPECT_EQ(last.next_in.count(), 700);
  EXPECT_EQ(refused.next_in.count(), 700);
  EXPECT_EQ(refused.remaining, 0u);
  EXPECT_FALSE(refused.has_turn);
}

TEST_F(Limit, the_window_slides) {
  is_admitted(1);
  now_ += milliseconds(500);
  is_admitted(2);
  is_admitted(3);
  now_ += milliseconds(300);

  EXPECT_TRUE(is_admitted(4));
  EXPECT_FALSE(is_admitted(5));
  now_ += milliseconds(500);
  EXPECT_TRUE(is_admitted(5));
  EXPECT_TRUE(is_admitted(6));
  EXPECT_FALSE(is_admitted(7));
}

TEST_F(Limit, nobody_is_admitted_a_moment_before_the_period_is_over) {
  fill();
  now_ += milliseconds(800) - nanoseconds(1);

  EXPECT_FALSE(is_admitted(4));
  now_ += nanoseconds(1);
  EXPECT_TRUE(is_admitted(4));
}

TEST_F(Limit, turns_are_given_in_order_a_period_apart) {
  fill();

  EXPECT_EQ(turn_of(1).count(), 800);
  EXPECT_EQ(turn_of(2).count(), 800);
  EXPECT_EQ(turn_of(3).count(), 800);
  EXPECT_EQ(turn_of(4).count(), 1600);
  EXPECT_EQ(turn_of(7).count(), 1600);
}

TEST_F(Limit, what_remains_does_not_include_the_turns_of_waiters) {
  fill();
  turn_of(1);
  now_ += milliseconds(800);

  EXPECT_EQ(std::get<Admitted>(ask(2)).remaining, 1u);
}

TEST_F(Limit, a_late_waiter_does_not_delay_those_behind_it) {
  rate_.most = 2;
  fill();
  turn_of(1);
  turn_of(2);
  now_ += milliseconds(800);

  EXPECT_TRUE(is_admitted(2));
  now_ += milliseconds(999);
  EXPECT_TRUE(is_admitted(1));
}

TEST_F(Limit, a_turn_that_is_not_taken_within_a_second_lapses) {
  rate_.most = 1;
  fill();
  turn_of(1);

  now_ += milliseconds(1799);
  EXPECT_FALSE(is_admitted(2));
  now_ += milliseconds(1);
  EXPECT_TRUE(is_admitted(2));
  EXPECT_FALSE(is_admitted(1));
  EXPECT_EQ(turn_of(1).count(), 800);
}

TEST_F(Limit, a_waiter_that_is_a_period_late_keeps_its_place) {
  rate_ = {1, milliseconds(100)};
  fill();
  for (unsigned who = 1; who <= 3; ++who) turn_of(who);
  now_ += milliseconds(200);
  EXPECT_TRUE(is_admitted(2));

  EXPECT_EQ(turn_of(1).count(), 100);
  EXPECT_EQ(turn_of(3).count(), 200);
}

TEST_F(Limit, a_turn_later_than_the_claim_would_wait_is_not_given) {
  fill();

  EXPECT_FALSE(std::get<NotAdmitted>(ask(1, milliseconds(799))).has_turn);
  EXPECT_TRUE(std::get<NotAdmitted>(ask(2, milliseconds(800))).has_turn);
  EXPECT_EQ(state_.turns.size(), 1u);
}

TEST_F(Limit, a_waiter_that_asks_again_without_waiting_leaves_the_queue) {
  fill();
  turn_of(1);

  EXPECT_FALSE(std::get<NotAdmitted>(ask(1)).has_turn);
  EXPECT_TRUE(state_.turns.empty());
}

TEST_F(Limit, a_withdrawn_turn_goes_to_a_newcomer) {
  fill();
  for (unsigned who = 1; who <= 3; ++who) turn_of(who);

  EXPECT_TRUE(withdraw(state_, token(2)));
  EXPECT_FALSE(withdraw(state_, token(2)));
  now_ += milliseconds(800);

  EXPECT_TRUE(is_admitted(4));
  EXPECT_FALSE(is_admitted(5));
}

TEST_F(Limit, a_clock_that_is_set_back_delays_nobody_by_more_than_a_period) {
  fill();
  turn_of(1);
  now_ -= seconds(500);

  EXPECT_FALSE(is_admitted(2));
  now_ += milliseconds(800);
  EXPECT_TRUE(is_admitted(1));
}

TEST_F(Limit, is_out_of_use_once_no_stamp_or_turn_matters) {
  EXPECT_TRUE(is_out_of_use(state_, now_));
  fill();
  turn_of(1);
  EXPECT_FALSE(is_out_of_use(state_, now_ + milliseconds(1799)));
  EXPECT_TRUE(is_out_of_use(state_, now_ + milliseconds(1800)));
}

TEST_F(Limit, keeps_no_more_stamps_than_it_admits_in_a_period) {
  for (int i = 0; i < 100; ++i) {
    is_admitted(1);
    now_ += milliseconds(50);
  }

  EXPECT_LE(state_.stamps.size(), 3u);
}

TEST_F(Limit, is_read_as_it_was_written) {
  fill();
  turn_of(1);
  turn_of(2);

  const auto bytes = record::encoded(state_);
  const auto read = record::decoded_limit(bytes);

  ASSERT_TRUE(read);
  EXPECT_EQ(read->rate, state_.rate);
  EXPECT_EQ(read->stamps, state_.stamps);
  ASSERT_EQ(read->turns.size(), 2u);
  EXPECT_EQ(read->turns[1].token, token(2));
  EXPECT_EQ(read->turns[1].at, state_.turns[1].at);

  const auto older = record::decoded_limit(bytes.substr(0, bytes.size() - 8));
  ASSERT_TRUE(older);
  EXPECT_EQ(older->turns.size(), 2u);
}

TEST_F(Limit, truncated_or_impossible_bytes_are_refused) {
  fill();
  turn_of(1);
  const auto bytes = record::encoded(state_);

  // Without the pid at the end, the bytes are what an older dlock has written.
  const auto without_pid = bytes.size() - sizeof(std::int32_t);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (at == without_pid) continue;
    EXPECT_FALSE(record::decoded_limit(bytes.substr(0, at))) << "cut at byte " << at;
  }
  EXPECT_FALSE(record::decoded_limit(bytes + "x"));
  // Rate, period, the counts, and moments, each with its highest byte changed.
  for (const std::size_t at : {7u, 15u, 23u, 31u, 39u}) {
    auto changed = bytes;
    changed[at] = '\x7F';
    EXPECT_FALSE(record::decoded_limit(changed)) << "at byte " << at;
  }
}

// Clients of a limit that arrive, wait, are late, leave and die at random.
class RandomLimits : public ::testing::TestWithParam<unsigned> {
 protected:
  unsigned below(unsigned end) { return static_cast<unsigned>(engine_() % end); }

  void admitted_now() { stamps_.push_back(now_); }

  std::mt19937 engine_{GetParam()};
  Clock::time_point now_{seconds(1000)};
  std::vector<Clock::time_point> stamps_;
};

TEST_P(RandomLimits, no_window_ever_has_more_admissions_than_the_rate_allows) {
  LimitState state;
  const Rate rate{1 + below(6), milliseconds(1 + below(3000))};
  std::map<unsigned, Clock::time_point> turns;
  unsigned newest = 0;

  for (int step = 0; step < 3000; ++step) {
    now_ += nanoseconds(below(400'000'000));
    auto who = ++newest;
    if (!turns.empty() && below(3) > 0) {
      const auto next = std::min_element(
          turns.begin(), turns.end(),
          [](const auto& a, const auto& b) { return a.second < b.second; });
      who = next->first;
      // Mostly when it was told to, sometimes too early or too late.
      if (below(4) > 0) now_ = std::max(now_, next->second);
    }
    turns.erase(who);
    if (below(20) == 0) {
      if (below(2) == 0) withdraw(state, token(who));
      continue;
    }
    const auto answer = admit(
        state, {{"dlock", "api"}, token(who), rate, milliseconds(below(10'000))}, now_);
    if (std::holds_alternative<Admitted>(answer)) {
      admitted_now();
    } else if (const auto& later = std::get<NotAdmitted>(answer); later.has_turn) {
      ASSERT_GT(later.next_in.count(), 0);
      turns[who] = now_ + later.next_in;
    }
    ASSERT_LE(state.stamps.size(), rate.most);
    if (stamps_.size() > rate.most) {
      ASSERT_GE(stamps_.back() - *(stamps_.end() - 1 - rate.most), rate.period);
    }
  }
  EXPECT_GT(stamps_.size(), 100u);
}

TEST_P(RandomLimits, punctual_waiters_are_admitted_in_order_and_as_early_as_possible) {
  LimitState state;
  const Rate rate{1 + below(6), milliseconds(100 + below(3000))};
  std::map<unsigned, Clock::time_point> turns;
  std::map<unsigned, Clock::time_point> arrivals;
  unsigned newest = 0;
  unsigned last_admitted = 0;
  int asked = 0;

  while (newest < 300 || !turns.empty()) {
    const auto next =
        std::min_element(turns.begin(), turns.end(), [](const auto& a, const auto& b) {
          return std::pair(a.second, a.first) < std::pair(b.second, b.first);
        });
    auto who = newest + 1;
    const auto arrival = now_ + milliseconds(below(600));
    if (next != turns.end() && (newest == 300 || next->second <= arrival)) {
      who = next->first;
      now_ = std::max(now_, next->second);
    } else {
      newest = who;
      arrivals[who] = now_ = arrival;
    }
    turns.erase(who);
    const auto answer =
        admit(state, {{"dlock", "api"}, token(who), rate, std::chrono::hours(24)}, now_);
    ++asked;
    if (const auto* later = std::get_if<NotAdmitted>(&answer)) {
      turns[who] = now_ + later->next_in;
      continue;
    }
    ASSERT_EQ(who, last_admitted + 1);
    last_admitted = who;
    admitted_now();
    auto due = arrivals[who];
    if (stamps_.size() > rate.most) {
      due = std::max(due, *(stamps_.end() - 1 - rate.most) + rate.period);
    }
    ASSERT_EQ(now_, due);
  }
  // Each claim asks on arrival, and once more when its turn comes.
  EXPECT_LE(asked, 600);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLimits, ::testing::Range(0u, 30u));

}  // namespace
}  // namespace dlock::rules
