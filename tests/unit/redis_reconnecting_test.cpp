// How attempts that failed are repeated, and which of their failures is reported.

#include <gtest/gtest.h>

#include "net/budget.hpp"

namespace dlock::redis {
namespace {

using namespace std::chrono_literals;
using net::Attempts;
using net::patience_with;
using net::Refusal;

TEST(RedisReconnecting, a_full_server_is_tried_for_the_whole_timeout) {
  EXPECT_EQ(patience_with(Refusal(Refusal::Reason::overloaded, "full"), 2s), 2s);
}

TEST(RedisReconnecting, a_server_that_is_not_there_is_tried_for_a_quarter_of_it) {
  EXPECT_EQ(patience_with(Refusal(Refusal::Reason::absent, "refused"), 2s), 500ms);
}

TEST(RedisReconnecting, no_other_failure_is_tried_again) {
  for (const auto kind : {Failure::Kind::unreachable, Failure::Kind::rejected,
                          Failure::Kind::exhausted, Failure::Kind::interrupted}) {
    EXPECT_EQ(patience_with(Failure(kind, "lost the connection"), 2s), 0ms);
  }
}

TEST(RedisReconnecting, pauses_grow_to_a_fifth_of_a_second_and_differ) {
  asio::io_context context;
  Wakeup wakeup(context);
  Attempts one(wakeup.within(2s), 2s);
  Attempts other(wakeup.within(2s), 2s);
  bool differ = false;
  auto longest = 20ms;
  for (int i = 0; i < 50; ++i) {
    const auto pause = one.next_pause();
    EXPECT_GE(pause, longest / 2);
    EXPECT_LE(pause, longest);
    longest = std::min<milliseconds>(longest * 2, 200ms);
    differ = differ || pause != other.next_pause();
  }
  EXPECT_TRUE(differ);
}

TEST(RedisReconnecting,
     an_attempt_that_runs_out_of_time_does_not_hide_why_others_failed) {
  const Refusal refused(Refusal::Reason::absent, "refused");
  const net::Timeout silent("did not reply");
  const Failure lost(Failure::Kind::unreachable, "lost the connection");
  asio::io_context context;
  Wakeup wakeup(context);
  Attempts attempts(wakeup.within(60s), 60s);
  attempts.note(silent);
  EXPECT_STREQ(attempts.reason().what(), "did not reply");
  attempts.note(refused);
  attempts.note(silent);
  EXPECT_STREQ(attempts.reason().what(), "refused");
  attempts.note(lost);
  EXPECT_STREQ(attempts.reason().what(), "lost the connection");

  Attempts over(wakeup.within(0s), 60s);
  over.note(refused);
  over.note(lost);
  EXPECT_STREQ(over.reason().what(), "refused");
  over.note(Failure(Failure::Kind::rejected, "no such user"));
  EXPECT_STREQ(over.reason().what(), "no such user");
}

// Earlier requests of the same operation may have used all of its time.
TEST(RedisReconnecting, a_message_about_no_time_has_no_number) {
  asio::io_context context;
  Wakeup wakeup(context);
  const net::Budget spent(wakeup.within(-1s), "db:6379");
  const net::Budget whole(wakeup.within(2s), "db:6379");

  EXPECT_STREQ(spent.timeout("db:6379").what(), "db:6379 did not reply in time");
  EXPECT_STREQ(whole.timeout("db:6379").what(), "db:6379 did not reply within 2.0s");
}

}  // namespace
}  // namespace dlock::redis
