// A primary of Redis with a replica, and three sentinels: replication that is behind, and
// a primary that is replaced and goes on.
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

class SentinelGroup {
 public:
  // `replaced` is called when another server becomes the primary, with the moment from
  // which a majority of the sentinels names it.
  using Replaced = std::function<void(Time)>;
  explicit SentinelGroup(Replaced replaced) : replaced_(std::move(replaced)) {}

  // The first two are servers, and the others sentinels.
  void add(RedisServer& member, const std::string& address);

  bool is_primary(const RedisServer& server) const {
    return servers_[primary_] == &server;
  }
  bool is_replica(const RedisServer& server) const { return follows_.count(&server) > 0; }
  // What a member replies beside what all servers do; nothing if that is the same.
  std::optional<redis::Reply> reply(const RedisServer& by,
                                    const std::vector<std::string>& words) const;
  void has_written(RedisServer& server);
  void is_absent(RedisServer& server);  // is stopped, or was killed
  void fail_over();

 private:
  bool is_sentinel(const RedisServer& member) const;

  Replaced replaced_;
  std::vector<RedisServer*> servers_, sentinels_;
  std::vector<std::string> addresses_;
  std::map<const RedisServer*, std::size_t> seen_;  // the primary, by a sentinel
  std::set<const RedisServer*> follows_;            // replicas
  std::size_t primary_ = 0;
  Time copied_ = 0;  // when the replica has all that was written
};

}  // namespace dlock::simulation
