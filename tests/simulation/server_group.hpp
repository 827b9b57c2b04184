// Servers of Redis that know of each other: replication that is behind, a primary that is
// replaced and goes on, keys that move to another server.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/redis/reply.hpp"
#include "tests/simulation/kernel.hpp"

namespace dlock::simulation {

class RedisServer;

// The first two members are a primary and its replica.
class ServerGroup {
 public:
  struct Observer {
    // Another server has become the primary, and from that moment on clients use it.
    std::function<void(Time)> replaced;
    // Until then no lock can be granted.
    std::function<void(Time)> unavailable;
  };

  explicit ServerGroup(Observer observer) : observer_(std::move(observer)) {}
  virtual ~ServerGroup() = default;

  void add(RedisServer& member, const std::string& address);

  // The member that has the keys of the lock, and the one to which they are moving.
  virtual const RedisServer& owner() const { return primary(); }
  virtual RedisServer* next_owner() const { return nullptr; }

  // What a member replies beside what all servers do; nothing if that is the same.
  // `asks`: behind ASKING.
  virtual std::optional<redis::Reply> reply(RedisServer& by,
                                            const std::vector<std::string>& words,
                                            bool asks) const = 0;
  void has_written(RedisServer& server);
  void is_absent(RedisServer& server);  // is stopped, or was killed
  virtual void disturb() { fail_over(); }

 protected:
  std::size_t index_of(const RedisServer& member) const;
  RedisServer& primary() const { return *members_[primary_]; }
  bool is_replica(const RedisServer& server) const { return follows_.count(&server) > 0; }
  void fail_over();

  Observer observer_;
  std::vector<RedisServer*> members_;
  std::vector<std::string> addresses_;
  std::size_t primary_ = 0;

 private:
  virtual bool can_fail_over() const { return true; }
  // Others learn that a member has become the primary, and the former one last, at the
  // moment that is returned.
  virtual Time tell(std::size_t primary) = 0;

  std::set<const RedisServer*> follows_;
  Time copied_ = 0;  // when the replica has all that was written
};

// All members but the first two are sentinels.
class SentinelGroup final : public ServerGroup {
 public:
  using ServerGroup::ServerGroup;

  std::optional<redis::Reply> reply(RedisServer& by,
                                    const std::vector<std::string>& words,
                                    bool asks) const override;

 private:
  Time tell(std::size_t primary) override;

  std::map<std::size_t, std::size_t> seen_;  // the primary, by a sentinel
};

// The slot of the lock is at the first two members, or moves to the third, and back.
class ClusterGroup final : public ServerGroup {
 public:
  explicit ClusterGroup(Observer observer);

  const RedisServer& owner() const override { return *members_[owner_]; }
  RedisServer* next_owner() const override {
    return moves_to_ ? members_[*moves_to_] : nullptr;
  }
  std::optional<redis::Reply> reply(RedisServer& by,
                                    const std::vector<std::string>& words,
                                    bool asks) const override;
  void disturb() override;

 private:
  bool can_fail_over() const override { return owner_ == primary_ && !moves_to_; }
  Time tell(std::size_t primary) override;
  redis::Reply pointing_to(const char* code, std::size_t member) const;
  void begin_to_move();
  void move_some();
  void end_move();

  static constexpr std::size_t other = 2;  // a primary without a replica
  std::size_t owner_ = 0;
  std::optional<std::size_t> moves_to_;
  std::map<std::size_t, std::size_t> seen_{};  // the owner, by a member
  bool tries_again_;  // as versions that do so whenever a part of the keys has moved
};

}  // namespace dlock::simulation
