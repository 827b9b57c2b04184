// One server, to which scripts and commands are sent, and the scripts.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/lease.hpp"
#include "store/redis/redis_connection.hpp"
#include "util/clock.hpp"

namespace dlock::redis {

// The Lua scripts of scripts/*.lua, each preceded by the parts of scripts/shared that it
// uses.
struct Script {
  const char* text;
  const char* sha1;  // by which EVALSHA calls it
};

extern const Script ask_script;
extern const Script renew_script;
extern const Script reclaim_script;
extern const Script release_script;
extern const Script break_script;
extern const Script inspect_script;
extern const Script remove_expired_script;
extern const Script put_piece_script;
extern const Script put_value_script;
extern const Script history_script;
extern const Script set_lease_script;
extern const Script admit_fence_script;
extern const Script limit_script;
extern const Script look_at_limit_script;
extern const Script withdraw_script;

// The class of a reply, independent of its contents.
enum class ReplyClass {
  answer,
  moved,        // another server has the key now (MOVED)
  ask,          // the key is being migrated to another server (ASK, TRYAGAIN)
  not_now,      // the server cannot answer yet (LOADING, BUSY, CLUSTERDOWN, MASTERDOWN)
  not_primary,  // the server is a replica (READONLY, UNBLOCKED)
  refused,      // any other error
};
ReplyClass class_of(const Reply& reply);

// How long an interrupted claimant still tries to withdraw its claim.
constexpr milliseconds last_patience{80};

// The role that a server must have.
enum class Role {
  any,
  // Checked on each new connection; if it is not one, all replies become READONLY.
  primary,
  // Checked on each new connection; throws misconfigured if it is not one. Redirections
  // to other members are returned as they are.
  cluster_member,
  // A primary that is one of several independent servers. Its role and its life() are
  // read on each new connection; throws misconfigured if it is a replica.
  independent,
};

// How a script is sent. The server caches scripts, but one that took over has none yet.
enum class Sent {
  by_hash,  // and in full if the server does not know it
  in_full,
};

// Runs a script on these keys.
Command command_of(const Script& script, Sent sent, const std::vector<std::string>& keys,
                   const std::vector<std::string>& args = {});

// The time from one start of a server to the next.
struct Life {
  std::string run_id;       // different after each start
  Clock::time_point began;  // at the latest
};

// From `INFO server` received at `now`; nothing if it lacks the fields.
std::optional<Life> life_from(const Fields& info, Clock::time_point now);

// How many replicas are connected to a primary, from its reply to ROLE.
unsigned replicas_in(const Reply& role);

class Node {
 public:
  // Contacts nothing yet. `timeout` is the budget of one operation.
  Node(asio::io_context& context, Target target, milliseconds timeout,
       Role role = Role::any);

  asio::io_context& context() const { return context_; }
  const Target& target() const { return target_; }
  const std::string& name() const { return name_; }  // for messages, without secrets
  milliseconds timeout() const { return timeout_; }
  Call new_call(Wakeup& wakeup) const { return wakeup.within(timeout_); }

  // As RedisConnection::open().
  asio::awaitable<void> open(Call call);

  // The next request opens the connection again.
  void close() { connection_.close(); }

  // As RedisConnection::exchange().
  asio::awaitable<std::vector<Reply>> exchange(std::vector<Command> commands, Call call);

  // Runs a script on these keys.
  // Returns its reply and, if `replicas` is above 0, waits within the budget for that
  // many replicas to acknowledge its writes and returns their number as a second reply.
  // Throws Failure like exchange(); an error of the script is a reply.
  asio::awaitable<std::vector<Reply>> run(const Script& script,
                                          const std::vector<std::string>& keys,
                                          const std::vector<std::string>& args,
                                          unsigned replicas, Call call,
                                          Sent sent = Sent::by_hash);

  // Waits as the last run() on this connection did, for more replicas: the reply to WAIT.
  asio::awaitable<Reply> wait_again(unsigned replicas, Call call);

  // The same while the keys are being migrated to this server (ASKING).
  asio::awaitable<std::vector<Reply>> run_asking(const Script& script,
                                                 const std::vector<std::string>& keys,
                                                 const std::vector<std::string>& args,
                                                 unsigned replicas, Call call);

  // Throws Failure (misconfigured) if a server that may have `any` role is a member of a
  // cluster, which has only some of the locks. Asks once.
  asio::awaitable<void> require_alone(Call call);

  // The Failure for an unexpected reply.
  Failure failure(const Reply& reply) const;

  // Whether the last attempt failed in a way that suggests another server should be used:
  // it could not be reached, is a replica, or is not ready.
  bool is_suspect() const { return is_suspect_; }
  void trust() { is_suspect_ = false; }
  void distrust() { is_suspect_ = true; }

  // How many replicas were connected to a `primary`, as of a new connection or the last
  // request that waited for replicas.
  unsigned connected() const { return connected_; }

  // Of an `independent` server, as of the connection that the last reply came from.
  const Life& life() const { return life_; }

 private:
  asio::io_context& context_;
  std::vector<std::string> with_probes(const std::vector<std::string>& keys) const;
  asio::awaitable<bool> is_only_about_probes(const Reply& reply, Call call);
  asio::awaitable<std::optional<Reply>> refused_command(const Script& script,
                                                        const std::string& key,
                                                        Call call);
  asio::awaitable<std::vector<Reply>> exchange_and_wait(Command command,
                                                        unsigned replicas, Call call);
  bool take_check(const std::vector<Reply>& replies);
  void take_life(const Reply& info, const Reply& role);

  Target target_;
  milliseconds timeout_;
  Role role_;
  std::string name_;
  RedisConnection connection_;
  Clock::time_point opened_at_;  // this connection
  bool is_named_ = false;        // on the server
  bool is_checked_ = false;      // this connection leads to a server with that role
  bool is_suspect_ = false;
  bool is_alone_ = false;  // known to be no member of a cluster
  unsigned connected_ = 0;
  Life life_;
};

}  // namespace dlock::redis
