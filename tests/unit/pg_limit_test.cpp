// A rate limit as PostgreSQL keeps it in a row.

#include "store/postgres/pg_limit.hpp"

#include <gtest/gtest.h>

#include <string>

#include "util/bits.hpp"

namespace dlock::postgres {
namespace {

constexpr WallTime some_time{1'795'000'000'000'000};
constexpr milliseconds second{1000};

RateClaim claim_for(const Rate& rate, milliseconds patience = milliseconds(0)) {
  RateClaim claim;
  claim.limit = {"dlock", "api"};
  claim.token.bytes = random_bytes();
  claim.rate = rate;
  claim.patience = patience;
  claim.host = "a host";
  claim.pid = 4711;
  return claim;
}

struct Asked {
  RateAnswer answer;
  bool has_changed = false;

  bool is_admitted() const { return std::holds_alternative<Admitted>(answer); }
};

// As each step does: from the text, and back.
Asked ask(std::string& text, const RateClaim& claim, WallTime now) {
  auto limit = text.empty() ? PgLimit() : PgLimit::from(text).value();
  Asked asked;
  asked.answer = limit.admit(claim, now, asked.has_changed);
  if (asked.has_changed) text = limit.text();
  return asked;
}

TEST(PgLimit, counts_admissions_over_all_its_texts) {
  std::string text;
  const Rate rate{2, second};
  EXPECT_TRUE(ask(text, claim_for(rate), some_time).is_admitted());
  EXPECT_TRUE(ask(text, claim_for(rate), some_time + second / 2).is_admitted());

  EXPECT_FALSE(ask(text, claim_for(rate), some_time + second * 3 / 4).is_admitted());
  EXPECT_TRUE(ask(text, claim_for(rate), some_time + second).is_admitted());
  EXPECT_FALSE(ask(text, claim_for(rate), some_time + second).is_admitted());
}

TEST(PgLimit, admits_a_claim_once_though_it_asks_again) {
  std::string text;
  const auto first = claim_for({1, second});
  EXPECT_TRUE(ask(text, first, some_time).has_changed);

  const auto again = ask(text, first, some_time + second / 2);

  EXPECT_TRUE(again.is_admitted());
  EXPECT_FALSE(again.has_changed);
  EXPECT_TRUE(ask(text, first, some_time + second).has_changed);
}

TEST(PgLimit, forgets_who_was_admitted_with_the_admission) {
  std::string text;
  const Rate rate{3, second};
  const auto first = claim_for(rate);
  const auto second_one = claim_for(rate);
  ask(text, first, some_time);
  ask(text, second_one, some_time + second / 2);

  EXPECT_TRUE(ask(text, claim_for(rate), some_time + second).has_changed);

  EXPECT_FALSE(ask(text, second_one, some_time + second).has_changed);
  EXPECT_TRUE(ask(text, first, some_time + second).has_changed);
}

TEST(PgLimit, a_refused_claim_changes_nothing) {
  std::string text;
  ask(text, claim_for({1, second}), some_time);
  const auto before = text;

  EXPECT_FALSE(ask(text, claim_for({1, second}), some_time).has_changed);
  EXPECT_FALSE(ask(text, claim_for({9, second}), some_time).has_changed);

  EXPECT_EQ(text, before);
}

TEST(PgLimit, keeps_waiters_in_order_with_their_host_and_pid) {
  std::string text;
  const Rate rate{1, second};
  ask(text, claim_for(rate), some_time);
  auto waiting = claim_for(rate, 10 * second);
  waiting.host = "host with blanks and \xc3\xa9";
  const auto behind = claim_for(rate, 10 * second);
  ask(text, waiting, some_time);
  ask(text, behind, some_time);

  const auto kept = PgLimit::from(text);

  ASSERT_TRUE(kept);
  ASSERT_EQ(kept->state().turns.size(), 2u);
  EXPECT_EQ(kept->state().turns[0].token, waiting.token);
  EXPECT_EQ(kept->state().turns[0].host, waiting.host);
  EXPECT_EQ(kept->state().turns[0].pid, waiting.pid);
  EXPECT_EQ(kept->state().turns[1].token, behind.token);
  EXPECT_FALSE(ask(text, behind, some_time + second).is_admitted());
  EXPECT_TRUE(ask(text, waiting, some_time + second).is_admitted());
}

TEST(PgLimit, ten_thousand_admissions_fit) {
  std::string text;
  const Rate rate{10'000, milliseconds(3'600'000)};
  auto limit = PgLimit();
  for (int i = 0; i < 10'000; ++i) {
    bool has_changed = false;
    limit.admit(claim_for(rate), some_time + milliseconds(i), has_changed);
  }
  text = limit.text();

  EXPECT_LT(text.size(), 200'000u);
  EXPECT_FALSE(ask(text, claim_for(rate), some_time + second).is_admitted());
}

TEST(PgLimit, matters_until_a_period_after_its_last_turn) {
  std::string text;
  const Rate rate{1, second};
  ask(text, claim_for(rate), some_time);
  ask(text, claim_for(rate, 10 * second), some_time);

  const auto until = PgLimit::from(text)->matters_until(some_time);

  EXPECT_GE(until, some_time + 2 * second);
  EXPECT_LT(until, some_time + 120 * second);
}

TEST(PgLimit, the_text_of_another_is_refused) {
  const std::string good = R"({"most":1,"period_ms":1,"turns":[]})";
  EXPECT_TRUE(PgLimit::from(good + "\n"));
  EXPECT_TRUE(PgLimit::from(good + "\n5:00 0:01 "));
  EXPECT_TRUE(PgLimit::from(R"({"most":1,"period_ms":1,"turns":[],"new":2})"
                            "\n"));

  for (const std::string line :
       {"", "{", "[]", "{}", R"({"most":1})", R"({"most":20000,"period_ms":1})",
        R"({"most":-1,"period_ms":1,"turns":[]})",
        R"({"most":1,"period_ms":1,"turns":["5"]})",
        R"({"most":1,"period_ms":1,"turns":["5 zz 1 host"]})"}) {
    EXPECT_FALSE(PgLimit::from(line + "\n")) << line;
  }
  for (const std::string admitted : {"5 ", "5:00", "x:00 ", "-5:00 ", ":00 ", " ",
                                     "9007199254740992:a 9007199254740992:b "}) {
    EXPECT_FALSE(PgLimit::from(good + "\n" + admitted)) << admitted;
  }
  EXPECT_FALSE(PgLimit::from(good));
}

}  // namespace
}  // namespace dlock::postgres
