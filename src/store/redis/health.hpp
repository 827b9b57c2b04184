// Judges a server: findings from the facts about it.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lock/finding.hpp"
#include "util/failure.hpp"

namespace dlock::redis {

// "redis_version" -> "7.0.15"
using Fields = std::map<std::string, std::string, std::less<>>;

// What the server has reported; fields are empty where it did not.
struct Facts {
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

// One finding for each check; a check that depends on another follows it.
std::vector<Finding> findings_of(const Facts& facts);

// For a store of several servers: adds a finding of one of them, which it names if it is
// a problem, or keeps the one of the same check that is there, if that is as severe.
void add_worst(std::vector<Finding>& findings, Finding found, const std::string& server);

// By how much the clocks of the servers differ; nothing if none reports its time.
std::optional<std::chrono::microseconds> clock_spread(std::span<const Facts> servers);

// With the round trip of the slowest of these servers, and the shortest lease for it.
Examination examination_of(std::vector<Finding> findings, std::span<const Facts> servers);

// "a, b"
std::string listed(const std::vector<std::string>& words);

}  // namespace dlock::redis
