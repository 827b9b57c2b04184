// The rules of rate limits, one by one and under random histories.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "record/states.hpp"
#include "tests/scene.hpp"

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

// A limit, and claims that are one letter each.
struct Limit {
  RateAnswer ask(const std::string& who, milliseconds patience = milliseconds(0)) {
    return admit(state, {{"dlock", "api"}, token(who.front()), rate, patience}, now);
  }
  void fill() {
    for (unsigned who = 1000; who < 1000 + rate.most; ++who) {
      admit(state, {{"dlock", "api"}, token(who), rate, {}}, now);
    }
  }
  // What a step does and says: "WHO PATIENCE" asks, and the others name themselves.
  std::string play(const std::string& step) {
    const auto words = scene::split(step, " ");
    const auto& first = words.front();
    const auto then = words.size() > 1 ? words[1] : "";
    if (first == "rate") {
      rate = {static_cast<unsigned>(std::stoul(then)), scene::time_in(words.at(2))};
    } else if (first == "full") {
      fill();
    } else if (first == "after") {
      const bool is_exact = then.ends_with("ns");
      now += is_exact ? nanoseconds(std::stoll(then)) : scene::time_in(then);
    } else if (first == "turns") {
      return std::to_string(state.turns.size());
    } else if (first == "unused") {
      return scene::yes_or_no(is_out_of_use(state, now));
    } else if (then == "leaves") {
      return scene::yes_or_no(withdraw(state, token(first.front())));
    } else {
      return said(ask(first, then.empty() ? milliseconds(0) : scene::time_in(then)));
    }
    return "";
  }
  // "yes", or "no", with what remains, the time until the next, and whether it has a
  // turn.
  static std::string said(const RateAnswer& answer) {
    const auto numbers = [](auto remaining, milliseconds next) {
      return " " + std::to_string(remaining) + " " + std::to_string(next.count());
    };
    if (const auto* admitted = std::get_if<Admitted>(&answer)) {
      return "yes" + numbers(admitted->remaining, admitted->next_in);
    }
    const auto& later = std::get<NotAdmitted>(answer);
    return "no" + numbers(later.remaining, later.next_in) +
           (later.has_turn ? " turn" : "");
  }

  Rate rate{3, milliseconds(800)};
  LimitState state;
  Clock::time_point now{seconds(1000)};
};

// A step, and what it says after ": ".
constexpr std::pair<const char*, const char*> limit_scenes[] = {
    {"the rate is admitted, and then is said when the next can be",
     "a: yes 2 0; after 100ms; b: yes 1 0; c: yes 0 700; d: no 0 700"},
    {"the window slides",
     "a: yes 2 0; after 500ms; b: yes 1 0; c: yes 0 300; after 300ms; d: yes 0 500"
     "; e: no 0 500; after 500ms; e: yes 1 0; f: yes 0 300; g: no 0 300"},
    {"no claim is admitted a moment before the period is over",
     "full; after 799999999ns; a: no 0 1; after 1ns; a: yes 2 0"},
    {"turns are given in order, a period apart",
     "full; a 1h: no 0 800 turn; b 1h: no 0 800 turn; c 1h: no 0 800 turn"
     "; d 1h: no 0 1600 turn; e 1h: no 0 1600 turn"},
    {"what remains does not include the turns of waiters",
     "full; a 1h: no 0 800 turn; after 800ms; b: yes 1 0"},
    {"a late waiter does not delay those behind it",
     "rate 2 800ms; full; a 1h: no 0 800 turn; b 1h: no 0 800 turn; after 800ms"
     "; b: yes 0 800; after 999ms; a: yes 1 0"},
    {"a turn that is not taken within a second lapses",
     "rate 1 800ms; full; a 1h: no 0 800 turn; after 1799ms; b: no 0 1; after 1ms"
     "; b: yes 0 800; a: no 0 800; a 1h: no 0 800 turn"},
    {"a late waiter is not overtaken for a period",
     "rate 1 800ms; full; a 1h: no 0 800 turn; b 1h: no 0 1600 turn; after 1s"
     "; b 1h: no 0 600 turn"},
    {"a waiter that is a period late keeps its place",
     "rate 1 100ms; full; a 1h: no 0 100 turn; b 1h: no 0 200 turn; c 1h: no 0 300 turn"
     "; after 200ms; b: yes 0 200; a 1h: no 0 100 turn; c 1h: no 0 200 turn"},
    {"a turn later than the claim would wait is not given",
     "full; a 799ms: no 0 800; b 800ms: no 0 800 turn; turns: 1"},
    {"a waiter that asks again without waiting leaves the queue",
     "full; a 1h: no 0 800 turn; a: no 0 800; turns: 0"},
    {"a turn that is given back goes to a newcomer",
     "full; a 1h: no 0 800 turn; b 1h: no 0 800 turn; c 1h: no 0 800 turn"
     "; b leaves: true; b leaves: false; after 800ms; d: yes 0 800; e: no 0 800"},
    {"a clock that is set back delays no claim by more than a period",
     "full; a 1h: no 0 800 turn; after -500s; b: no 0 800; after 800ms; a: yes 2 0"},
    {"the turns are set back with the clock",
     "rate 1 800ms; full; a 1h: no 0 800 turn; after -500s; b: no 0 1600"},
    {"a limit is out of use once no stamp or turn matters",
     "unused: true; full; a 1h: no 0 800 turn; after 1799ms; unused: false; after 1ms"
     "; unused: true"},
};

TEST(Limits, are_as_the_scenes_say) {
  for (const auto& [title, steps] : limit_scenes) {
    Limit limit;
    for (const auto& step : scene::split(steps, ";")) {
      const auto colon = step.find(": ");
      const auto wanted = colon == std::string::npos ? "" : step.substr(colon + 2);
      EXPECT_EQ(limit.play(step.substr(0, colon)), wanted) << title << ": " << step;
    }
  }
}

TEST(Limits, keep_no_more_stamps_than_they_admit_in_a_period) {
  Limit limit;
  for (int i = 0; i < 100; ++i) {
    limit.ask("a");
    limit.now += milliseconds(50);
  }

  EXPECT_LE(limit.state.stamps.size(), 3u);
}

TEST(Limits, are_read_as_they_were_written) {
  Limit limit;
  limit.fill();
  limit.ask("a", seconds(9));
  limit.ask("b", seconds(9));

  const auto bytes = record::encoded(limit.state);
  const auto read = record::decoded_limit(bytes);

  ASSERT_TRUE(read);
  EXPECT_EQ(read->rate, limit.state.rate);
  EXPECT_EQ(read->stamps, limit.state.stamps);
  ASSERT_EQ(read->turns.size(), 2u);
  EXPECT_EQ(read->turns[1].token, token('b'));
  EXPECT_EQ(read->turns[1].at, limit.state.turns[1].at);
}

TEST(Limits, of_truncated_or_impossible_bytes_are_refused) {
  Limit limit;
  limit.fill();
  limit.ask("a", seconds(9));
  const auto bytes = record::encoded(limit.state);

  for (std::size_t at = 0; at < bytes.size(); ++at) {
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
