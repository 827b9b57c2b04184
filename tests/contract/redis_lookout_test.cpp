// What others say of the server that has a lock's keys, while it is silent.

#include <gtest/gtest.h>

#include <deque>

#include "store/redis/redis_news.hpp"
#include "tests/contract/await.hpp"

namespace dlock::redis {
namespace {

const ServerAddress a{"10.0.0.1", 6379};
const ServerAddress b{"10.0.0.2", 6379};
const ServerAddress c{"10.0.0.3", 6379};

// Other servers that name these servers in turn, and then always the last one; nothing
// means that they cannot be asked.
class Others final : public Route {
 public:
  Others() : Route(milliseconds(40)) {}

  asio::awaitable<std::vector<Node*>> all(Call) override {
    throw Failure(Failure::Kind::unreachable, "not asked here");
  }
  asio::awaitable<std::optional<ServerAddress>> owner_by_others(const LockName&,
                                                                const Node&,
                                                                Call) override {
    ++asked;
    const auto named = names.front();
    if (names.size() > 1) names.pop_front();
    if (!named) throw Failure(Failure::Kind::unreachable, "not there");
    co_return named;
  }

  std::deque<std::optional<ServerAddress>> names;
  int asked = 0;

 private:
  asio::awaitable<Node*> node_for(const LockName&, Call) override {
    throw Failure(Failure::Kind::unreachable, "not asked here");
  }
};

class RedisLookout : public ::testing::Test {
 protected:
  void look_out(Clock::time_point begin = Clock::now()) {
    lookout_.emplace(context_, others_, LockName{"dlock", "job"}, server_, begin,
                     [this](const ServerAddress& server) { found_.push_back(server); });
  }
  bool are_asked(int times) {
    return eventually(context_, [&] { return others_.asked >= times; });
  }

  asio::io_context context_;
  Others others_;
  Node server_{context_, Target{}.at(a), milliseconds(40)};
  std::vector<ServerAddress> found_;
  std::optional<Lookout> lookout_;
};

TEST_F(RedisLookout, reports_each_server_that_is_named_instead_once) {
  others_.names = {a, b, b, a, b, c};
  look_out();

  ASSERT_TRUE(are_asked(9));

  EXPECT_EQ(found_, (std::vector<ServerAddress>{b, c}));
}

TEST_F(RedisLookout, reports_nothing_while_the_server_itself_is_named) {
  others_.names = {a};
  look_out();

  ASSERT_TRUE(are_asked(5));

  EXPECT_TRUE(found_.empty());
}

TEST_F(RedisLookout, asks_again_after_a_failure) {
  others_.names = {std::nullopt, std::nullopt, b};
  look_out();

  ASSERT_TRUE(are_asked(3));

  EXPECT_EQ(found_, std::vector<ServerAddress>{b});
}

TEST_F(RedisLookout, asks_nobody_before_it_begins_and_after_its_end) {
  others_.names = {b};
  const auto begin = Clock::now() + milliseconds(200);
  look_out(begin);
  ASSERT_TRUE(are_asked(1));
  EXPECT_GE(Clock::now(), begin);

  lookout_.reset();

  const auto asked = others_.asked;
  context_.restart();
  context_.run_for(milliseconds(200));
  EXPECT_EQ(others_.asked, asked);
}

}  // namespace
}  // namespace dlock::redis
