// Collects the facts about a server that matter to locks, and judges it by them. It
// changes nothing there.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lock/store.hpp"
#include "loop/wakeup.hpp"
#include "store/redis/permissions.hpp"
#include "store/redis/reply.hpp"
#include "store/redis/target.hpp"

namespace dlock::redis {

// What the server has reported; fields are empty where it did not.
struct RedisFacts {
  std::string server;          // its address, for messages
  std::string user;            // logged in as this user
  std::string key_prefix;      // of the keys of the namespace: "dlock:"
  bool is_in_cluster = false;  // the store is a cluster
  bool uses_tls = false;
  int trips_to_renew = 3;  // round trips of a renewal that has to connect first

  std::optional<Failure> failure;       // why it could not be examined completely
  bool was_reached = false;             // the failure came after the connection was made
  std::optional<std::string> no_login;  // its error, if it requires a login

  Fields hello;
  Fields info;
  Fields config;
  std::optional<std::string> info_refused;    // its error to INFO
  std::optional<std::string> config_refused;  // its error to CONFIG GET

  std::vector<std::string> missing_commands;   // without permission; names as in an ACL
  bool keys_are_missing = false;               // no permission for the keys
  std::vector<std::string> missing_for_watch;  // commands or channels
  // Commands that the server does not know, as they are called: "EVAL".
  std::vector<std::string> unknown_commands;
  std::vector<std::string> unknown_for_watch;
  // Its error to reads and writes, if it refuses them now: "LOADING ...".
  std::optional<std::string> refuses_work;
  // Its error to a script that used an undeclared key, if it refuses such scripts.
  std::optional<std::string> refuses_undeclared;

  // Names and last fences of locks whose counters no clock explains.
  std::vector<std::pair<std::string, std::string>> far_fences;

  std::vector<std::chrono::nanoseconds> round_trips;
  std::optional<std::chrono::microseconds> clock_ahead;  // of this machine's
};

// `more` are the permissions that this kind of store needs besides those of locks. Each
// request takes at most `timeout`, and so do all measurements of round trips
// together. A failure is recorded as a fact, except Failure (exhausted), which is thrown.
asio::awaitable<RedisFacts> facts_of(asio::io_context& context, const Target& target,
                                     const std::string& name_space, milliseconds timeout,
                                     Wakeup& wakeup,
                                     std::span<const Permission> more = {});

// The same for several servers, all examined at once; the facts are in their order.
asio::awaitable<std::vector<RedisFacts>> facts_of_all(
    asio::io_context& context, std::vector<Target> targets, std::string name_space,
    milliseconds timeout, Wakeup& wakeup, std::span<const Permission> more = {});

// What an error reports as missing: permission for a command, or for a key.
enum class Denial { none, command, keys };
Denial denial_of(const Reply& reply);

// The error of a server that does not allow a script to use undeclared keys; nothing for
// other servers. `declared` is the reply to the same script with a declared key.
std::optional<std::string> undeclared_refused(const Reply& declared,
                                              const Reply& undeclared);

// What the server says that it is.
struct ServerVersion {
  std::string name;
  std::string text;
  bool is_too_old = false;
};
std::optional<ServerVersion> version_of(const RedisFacts& facts);

// By how much the clocks of the servers differ; nothing if none reports its time.
std::optional<std::chrono::microseconds> clock_spread(
    std::span<const RedisFacts> servers);

// One finding for each check; a check that depends on another follows it.
std::vector<Finding> findings_of(const RedisFacts& facts);

// For a store of several servers: adds the findings of each of them. Of those of one
// check the most severe stays, with the name of the server if it is a problem.
void add_findings_of(std::span<const RedisFacts> servers, std::vector<Finding>& findings);

// With the round trip of the slowest of these servers, and the shortest lease for it.
Examination examination_of(std::vector<Finding> findings,
                           std::span<const RedisFacts> servers);

}  // namespace dlock::redis
