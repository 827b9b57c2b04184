// Connecting to a server with several addresses, some of them dead.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <vector>

#include "net/dial.hpp"
#include "tests/contract/await.hpp"
#include "tests/contract/peer.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace dlock::redis {
namespace {

using std::chrono::seconds;

// A socket that listens with a full backlog: a client that connects gets no reply.
class FullListener {
 public:
  explicit FullListener(const net::Endpoint& endpoint)
      : listener_(::socket(endpoint.storage.ss_family,
                           SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    if (::bind(listener_.get(), endpoint.generic(), endpoint.size) != 0 ||
        ::listen(listener_.get(), 0) != 0) {
      throw std::runtime_error("cannot listen");
    }
    endpoint_ = endpoint;
    ::getsockname(listener_.get(),
                  static_cast<sockaddr*>(static_cast<void*>(&endpoint_.storage)),
                  &endpoint_.size);
    for (int i = 0; i < 8; ++i) {
      auto& client = clients_.emplace_back(::socket(
          endpoint.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      ::connect(client.get(), endpoint_.generic(), endpoint_.size);
    }
  }

  const net::Endpoint& endpoint() const { return endpoint_; }

  // Accepts all connections.
  void relent() {
    ::listen(listener_.get(), 64);
    for (int i = 0; i < 8; ++i) {
      const Fd accepted(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    }
  }

 private:
  Fd listener_;
  net::Endpoint endpoint_;
  std::vector<Fd> clients_;
};

class Dialling : public ::testing::Test {
 protected:
  static net::Endpoint loopback(std::uint16_t port) {
    return *net::endpoint_of_literal("127.0.0.1", port);
  }

  // The one of `endpoints` that accepts.
  asio::awaitable<net::Endpoint> answerer(net::Endpoints endpoints,
                                          milliseconds span = seconds(5)) {
    net::Budget budget(wakeup_.within(span), "server");
    net::Endpoint used;
    const Fd fd = co_await net::dial(context_, endpoints, budget, used);
    EXPECT_TRUE(fd);
    co_return used;
  }

  static bool is_same(const net::Endpoint& one, const net::Endpoint& other) {
    return std::memcmp(&one.storage, &other.storage, sizeof one.storage) == 0;
  }

  asio::io_context context_;
  Wakeup wakeup_{context_};
  PeerServer server_{[](const Peer& peer) { peer.read_all(); }};
  const std::uint16_t refusing_ = PeerServer([](const Peer&) {}).port();
};

TEST_F(Dialling, tries_the_next_address_at_once_after_one_that_refuses) {
  const auto began = Clock::now();

  const auto used = result_of(
      context_,
      answerer({loopback(refusing_), loopback(refusing_), loopback(server_.port())}));

  EXPECT_TRUE(is_same(used, loopback(server_.port())));
  EXPECT_LT(Clock::now() - began, milliseconds(150));
}

TEST_F(Dialling, tries_the_next_address_soon_if_one_is_silent) {
  const FullListener silent(loopback(0));
  const auto began = Clock::now();

  const auto used =
      result_of(context_, answerer({silent.endpoint(), loopback(server_.port())}));

  EXPECT_TRUE(is_same(used, loopback(server_.port())));
  const auto took = Clock::now() - began;
  EXPECT_GE(took, milliseconds(200));
  EXPECT_LT(took, milliseconds(600));
}

TEST_F(Dialling, ends_at_its_deadline_when_all_addresses_are_silent) {
  const FullListener silent(loopback(0));
  const auto began = Clock::now();

  EXPECT_THROW(result_of(context_, answerer({silent.endpoint(), silent.endpoint()},
                                            milliseconds(400))),
               Failure);

  EXPECT_LT(Clock::now() - began, milliseconds(500));
}

TEST_F(Dialling, tries_a_unix_socket_with_a_full_backlog_again) {
  const TemporaryDirectory directory;
  FullListener busy(net::endpoint_of_path(directory.file("socket")));
  Task<net::Endpoint> task(context_, answerer({busy.endpoint()}));
  context_.restart();
  context_.poll();
  ASSERT_FALSE(task.is_done());

  busy.relent();

  EXPECT_NO_THROW(task.result());
}

}  // namespace
}  // namespace dlock::redis
