// Asks Redis servers for the facts that matter to locks, and judges them: the table of
// the checks. It changes nothing there.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loop/wakeup.hpp"
#include "store/checks.hpp"
#include "store/redis/permissions.hpp"
#include "store/redis/reply.hpp"
#include "store/redis/target.hpp"

namespace dlock::redis {

// Names of commands: those that locks need, and those that only dlock watch needs.
struct CommandNames {
  std::vector<std::string> of_locks;
  std::vector<std::string> of_watch;
  void add(const Permission& right, std::string name) {
    (right.is_for_watch ? of_watch : of_locks).push_back(std::move(name));
  }
};

// What the server has reported; fields are empty where it did not. A failure can also say
// why it could not be examined completely.
struct RedisFacts : ServerFacts {
  std::string user;            // logged in as this user
  std::string key_prefix;      // of the keys of the namespace: "dlock:"
  bool is_in_cluster = false;  // the store is a cluster
  bool is_replaced = false;    // others grant the locks that a restart has lost
  bool uses_tls = false;
  bool needs_all_replicas = false;  // a lease counts only once they all have it
  bool was_reached = false;         // the failure came after the connection was made

  Fields fields;             // of HELLO, INFO and CONFIG GET
  std::string refused_info;  // "INFO was refused: ..."; empty: it was not

  // Commands that the user may not call, or for watch not on its channels; and those that
  // the server does not know.
  CommandNames missing;
  CommandNames unknown;
  bool keys_are_missing = false;  // no permission for the keys
  // Its error to reads and writes, if it refuses them now: "LOADING ...".
  std::optional<std::string> refuses_work;
  // Its error to a script that used an undeclared key, if it refuses such scripts.
  std::optional<std::string> refuses_undeclared;
  FarFences far_fences;

  // A field; empty, or 0, if the server has not reported it.
  std::string said(std::string_view name) const { return field(fields, name); }
  long long number(std::string_view name) const;
};

// The facts about several servers, all examined at once, in their order. `more` are the
// permissions that this kind of store needs besides those of locks. Each request takes at
// most the timeout, and so do all measurements of round trips together. A failure is
// recorded as a fact, except Failure (exhausted), which is thrown.
asio::awaitable<std::vector<RedisFacts>> facts_of_all(
    const ExaminationOrder& order, std::vector<Target> targets,
    std::span<const Permission> more = {});

// Examines one server.
Examination examination_of(const RedisFacts& facts);

// Adds what is said of several servers. Of the findings of one check the most severe
// stays, with the name of the server if it is a problem.
void add_examinations_of(const std::vector<RedisFacts>& servers,
                         Examination& examination);

// What an error reports as missing: permission for a command, or for a key.
enum class Denial { none, command, keys };
Denial denial_of(const Reply& reply);

// The error of a server that does not allow a script to use undeclared keys; nothing for
// other servers. `declared` is the reply to the same script with a declared key.
std::optional<std::string> undeclared_refused(const Reply& declared,
                                              const Reply& undeclared);

}  // namespace dlock::redis
