// Connections that a server refuses are tried again; requests that it may have executed
// are not.

#include <gtest/gtest.h>

#include <atomic>

#include "store/redis/route.hpp"
#include "tests/contract/await.hpp"
#include "tests/contract/peer.hpp"

namespace dlock::redis {
namespace {

using namespace std::chrono_literals;

constexpr const char* no_room = "-ERR max number of clients reached\r\n";

class RedisReconnecting : public ::testing::Test {
 protected:
  // The reply to a PING within `timeout`. Throws Failure.
  Reply ping_reply(const PeerServer& server, milliseconds timeout,
                   std::optional<std::string> password = std::nullopt) {
    Target target;
    target.host = "127.0.0.1";
    target.port = server.port();
    target.login.password = std::move(password);
    SoleRoute route(context_, target, timeout);
    const LockName lock{"dlock", "job"};
    const auto commands = alone({"PING"});
    auto ask = [&]() -> asio::awaitable<Reply> {
      const auto response = co_await route.exchange(lock, commands, wakeup_);
      co_return response.reply();
    };
    return result_of(context_, ask());
  }

  std::string failure_of_ping(const PeerServer& server, milliseconds timeout,
                              std::optional<std::string> password = std::nullopt) {
    try {
      ping_reply(server, timeout, std::move(password));
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.kind(), Failure::Kind::unreachable);
      return failure.what();
    }
    return "no failure";
  }

  asio::io_context context_;
  Wakeup wakeup_{context_};
};

TEST_F(RedisReconnecting, a_full_server_is_asked_until_it_has_room) {
  std::atomic<int> clients = 0;
  const PeerServer server([&](const Peer& peer) {
    if (++clients < 4) {
      peer.send(no_room);
      return;
    }
    peer.read_until(ping);
    peer.send("+PONG\r\n");
    peer.read_all();
  });

  EXPECT_EQ(ping_reply(server, 10s).text, "PONG");
  EXPECT_EQ(server.connections(), 4);
}

TEST_F(RedisReconnecting, a_server_that_stays_full_is_reported_within_the_timeout) {
  const PeerServer server([](const Peer& peer) { peer.send(no_room); });
  const auto began = Clock::now();

  const auto failed = failure_of_ping(server, 400ms);

  EXPECT_NE(failed.find("max number of clients"), std::string::npos) << failed;
  EXPECT_LT(Clock::now() - began, 500ms);
  EXPECT_GT(server.connections(), 2);
}

TEST_F(RedisReconnecting, a_request_that_may_have_been_executed_is_not_repeated) {
  const PeerServer server([](const Peer& peer) { peer.read_until(ping); });

  const auto failed = failure_of_ping(server, 10s);

  EXPECT_NE(failed.find("closed the connection"), std::string::npos) << failed;
  EXPECT_EQ(server.connections(), 1);
  EXPECT_EQ(server.received(), ping);
}

TEST_F(RedisReconnecting, a_connection_that_is_closed_during_the_login_is_tried_again) {
  std::atomic<int> clients = 0;
  const PeerServer server([&](const Peer& peer) {
    peer.read_until("secret\r\n");
    if (++clients < 3) return;
    peer.send("+OK\r\n");
    peer.read_until(ping);
    peer.send("+PONG\r\n");
    peer.read_all();
  });

  EXPECT_EQ(ping_reply(server, 10s, "secret").text, "PONG");
}

TEST_F(RedisReconnecting, a_refused_login_is_reported_at_once) {
  const PeerServer server([](const Peer& peer) {
    peer.read_until("secret\r\n");
    peer.send("-WRONGPASS invalid\r\n");
    peer.read_all();
  });

  EXPECT_THROW(ping_reply(server, 10s, "secret"), Failure);
  EXPECT_EQ(server.connections(), 1);
}

}  // namespace
}  // namespace dlock::redis
