// The servers of a quorum, of which each has one vote.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/redis/redis_store.hpp"
#include "store/redis_quorum/tally.hpp"

namespace dlock::redis_quorum {

// One of the servers, and the request in progress there.
//
// A slow server must not delay the others: a request continues after its caller has moved
// on, until the server has replied or the budget is spent. A voter is therefore shared
// with every request that may still be in progress.
class Voter : public std::enable_shared_from_this<Voter> {
 public:
  using Work = std::function<asio::awaitable<void>(Wakeup&)>;

  Voter(asio::io_context& context, const redis::Target& target, milliseconds timeout,
        milliseconds max_ttl);

  asio::io_context& context() const { return context_; }
  const std::string& name() const { return route_->node().name(); }
  redis::Route& route() { return *route_; }
  Store& store() { return *store_; }

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
  static asio::awaitable<void> work_off(std::shared_ptr<Voter> self);

  asio::io_context& context_;
  milliseconds max_ttl_;
  redis::SoleRoute* route_;  // the store's
  std::unique_ptr<Store> store_;
  Wakeup wakeup_;
  Work next_;
  bool is_busy_ = false;
};

using Voters = std::vector<std::shared_ptr<Voter>>;

// For a FanOut.
inline void perform_at(const Voters& voters, std::size_t number, Voter::Work work) {
  voters[number]->perform(std::move(work));
}

// Passes each message on once.
class Complaints {
 public:
  void report_to(std::function<void(const std::string&)> warn) {
    warn_ = std::move(warn);
  }
  void note(const std::string& message) {
    if (warn_ && noted_.insert(message).second) warn_("not counted: " + message);
  }

 private:
  std::function<void(const std::string&)> warn_;
  std::set<std::string> noted_;
};

}  // namespace dlock::redis_quorum
