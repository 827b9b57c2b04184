// Where the keys of a lock are.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <vector>

#include "store/redis/node.hpp"

namespace dlock::redis {

class Route {
 public:
  virtual ~Route() = default;

  // The server that has the keys of this lock. Throws Failure like Connection::open().
  virtual asio::awaitable<Node*> node_for(const LockName& lock, Wakeup& wakeup) = 0;

  // All servers that have keys of locks. Throws Failure likewise.
  virtual asio::awaitable<std::vector<Node*>> all(Wakeup& wakeup) = 0;
};

// One server has them all.
class SoleRoute final : public Route {
 public:
  SoleRoute(asio::io_context& context, Target target, milliseconds timeout)
      : node_(context, std::move(target), timeout) {}

  asio::awaitable<Node*> node_for(const LockName&, Wakeup&) override { co_return &node_; }
  asio::awaitable<std::vector<Node*>> all(Wakeup&) override {
    co_return std::vector<Node*>{&node_};
  }

 private:
  Node node_;
};

}  // namespace dlock::redis
