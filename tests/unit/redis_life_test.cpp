#include <gtest/gtest.h>

#include "store/redis/node.hpp"

namespace dlock::redis {
namespace {

using std::chrono::seconds;

const auto read_at = Clock::time_point(seconds(1'000'000));

std::optional<Life> life_in(const std::string& info) {
  return life_from(fields_of_info(info), read_at);
}

TEST(RedisLife, began_no_later_than_the_uptime_proves) {
  const auto life =
      life_in("# Server\r\nrun_id:abc\r\nuptime_in_seconds:61\r\nhz:10\r\n");

  ASSERT_TRUE(life);
  EXPECT_EQ(life->run_id, "abc");
  EXPECT_EQ(life->began, read_at - seconds(60));
}

TEST(RedisLife, began_now_if_the_server_has_just_started) {
  for (const auto* uptime : {"0", "1"}) {
    const auto life = life_in("run_id:abc\r\nuptime_in_seconds:" + std::string(uptime));
    EXPECT_EQ(life.value().began, read_at) << uptime;
  }
}

TEST(RedisLife, is_unknown_if_the_reply_is_invalid) {
  for (const auto* info :
       {"", "run_id:\x1b]0;x\r\nuptime_in_seconds:5", "run_id:abc", "uptime_in_seconds:5",
        "run_id:\r\nuptime_in_seconds:5", "run_id:abc\r\nuptime_in_seconds:",
        "run_id:abc\r\nuptime_in_seconds:-5", "run_id:abc\r\nuptime_in_seconds:5x",
        "run_id:abc\r\nuptime_in_seconds:99999999999999999999"}) {
    EXPECT_FALSE(life_in(info)) << info;
  }
}

TEST(RedisLife, has_an_id_of_bounded_length) {
  const auto with_id = [](std::size_t length) {
    return "run_id:" + std::string(length, 'a') + "\r\nuptime_in_seconds:5";
  };
  EXPECT_TRUE(life_in(with_id(64)));
  EXPECT_FALSE(life_in(with_id(65)));
}

TEST(RedisLife, does_not_overflow_with_a_huge_uptime) {
  const auto life = life_in("run_id:a\r\nuptime_in_seconds:9223372036854775807");

  EXPECT_LT(life.value().began, read_at);
}

}  // namespace
}  // namespace dlock::redis
