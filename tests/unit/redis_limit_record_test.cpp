// The record of a rate limit on a server; also records that no dlock has written.

#include <gtest/gtest.h>

#include "store/redis/redis_store.hpp"

namespace dlock::redis {
namespace {

Reply text(std::string value) { return {Reply::Kind::string, 0, std::move(value), {}}; }
Reply number(std::int64_t value) { return {Reply::Kind::integer, value, {}, {}}; }
Reply list(std::vector<Reply> elements) {
  return {Reply::Kind::array, 0, {}, std::move(elements)};
}

RateClaim rate_claim() {
  RateClaim made;
  made.token.bytes[0] = 7;
  made.host = "web 1";
  made.pid = 42;
  return made;
}

Reply limit_with(std::vector<Reply> stamps, std::vector<Reply> line) {
  return list({text("5000000"), number(2), number(1000), list(std::move(stamps)),
               list(std::move(line))});
}

TEST(RedisLimitRecord, says_who_waits_and_until_when) {
  const auto kept = kept_limit_from(
      limit_with({text("4000000")}, {text(member_of(rate_claim())), text("5500000")}));

  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->state.rate, (Rate{2, milliseconds(1000)}));
  ASSERT_EQ(kept->state.turns.size(), 1u);
  EXPECT_EQ(kept->state.turns[0].host, "web 1");
  EXPECT_EQ(kept->state.turns[0].pid, 42);
  EXPECT_EQ(kept->state.turns[0].at - kept->now, milliseconds(500));
}

TEST(RedisLimitRecord, is_invalid_if_no_dlock_can_have_written_it) {
  const auto member = member_of(rate_claim());
  EXPECT_FALSE(kept_limit_from(text("nonsense")));
  EXPECT_FALSE(kept_limit_from(list({})));
  EXPECT_FALSE(kept_limit_from(limit_with({text("x")}, {})));
  EXPECT_FALSE(kept_limit_from(limit_with({text("2"), text("1")}, {})));
  EXPECT_FALSE(kept_limit_from(limit_with({}, {text(member)})));
  EXPECT_FALSE(kept_limit_from(limit_with({}, {text("no token"), text("1")})));
  EXPECT_FALSE(kept_limit_from(limit_with({}, {text(member), text("-1")})));
}

}  // namespace
}  // namespace dlock::redis
