// One of the servers, and what it is asked at the moment.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "store/redis/redis_store.hpp"

namespace dlock::redis_quorum {

// What goes on at one server does not hold up the others: it goes on beside whoever has
// begun it, and is over when the server has answered or its budget is spent. So a member
// is shared by all that may still be under way with it.
class Member : public std::enable_shared_from_this<Member> {
 public:
  using Work = std::function<asio::awaitable<void>(Wakeup&)>;

  Member(asio::io_context& context, const redis::Target& target, milliseconds timeout,
         milliseconds max_ttl);

  asio::io_context& context() const { return context_; }
  const std::string& name() const { return route_->node().name(); }
  redis::Route& route() { return *route_; }
  Store& store() { return store_; }

  // The server that gave the last answer: which one that is, and why it has no vote, if
  // it has none.
  const std::string& run_id() const { return route_->node().life().run_id; }
  std::optional<Failure> has_no_vote() const;

  bool is_idle() const { return !is_busy_; }
  // Why it is not asked while it is not.
  Failure still_busy() const;

  // Has `work` done as soon as what goes on is over, which is given up: it ends with
  // Failure (interrupted), and its connection is closed. What was to be done next, and
  // has not begun, never is.
  void perform(Work work);

  // Gives up what goes on.
  void give_up();

 private:
  static asio::awaitable<void> work_off(std::shared_ptr<Member> self);

  asio::io_context& context_;
  milliseconds max_ttl_;
  redis::SoleRoute* route_;  // the store's
  redis::RedisStore store_;
  Wakeup wakeup_;
  Work next_;
  bool is_busy_ = false;
};

using Members = std::vector<std::shared_ptr<Member>>;

}  // namespace dlock::redis_quorum
