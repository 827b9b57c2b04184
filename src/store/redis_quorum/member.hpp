// One of the servers, and the request in progress there.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "store/redis/redis_store.hpp"

namespace dlock::redis_quorum {

// A slow server must not delay the others: a request continues after its caller has moved
// on, until the server has replied or the budget is spent. So a member is shared with
// every request that may still be in progress.
class Member : public std::enable_shared_from_this<Member> {
 public:
  using Work = std::function<asio::awaitable<void>(Wakeup&)>;

  Member(asio::io_context& context, const redis::Target& target, milliseconds timeout,
         milliseconds max_ttl);

  asio::io_context& context() const { return context_; }
  const std::string& name() const { return route_->node().name(); }
  redis::Route& route() { return *route_; }
  Store& store() { return store_; }

  // Of the server that sent the last reply: its run id, and why it has no vote, if it has
  // none.
  const std::string& run_id() const { return route_->node().life().run_id; }
  std::optional<Failure> has_no_vote() const;

  bool is_idle() const { return !is_busy_; }
  // The Failure while an earlier request is still in progress.
  Failure still_busy() const;

  // Interrupts the request in progress, which ends with Failure (interrupted) and closes
  // its connection, and then performs `work`. Work that was scheduled but has not begun
  // is dropped.
  void perform(Work work);

  // Interrupts the request in progress.
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

// For a Round.
inline void perform_at(const Members& members, std::size_t number, Member::Work work) {
  members[number]->perform(std::move(work));
}

}  // namespace dlock::redis_quorum
