// What is known of a server, and what that means for locks.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lock/finding.hpp"
#include "util/failure.hpp"

namespace dlock::redis {

// "redis_version" -> "7.0.15"
using Fields = std::map<std::string, std::string, std::less<>>;

// As far as the server could be asked and said it.
struct Facts {
  std::string server;          // where it is, for messages
  std::string user;            // as whom it was asked
  std::string key_prefix;      // what the keys of the namespace begin with: "dlock:"
  bool is_in_cluster = false;  // as it has to be
  int trips_to_renew = 3;      // round trips of a renewal that has to connect first

  std::optional<Failure> failure;  // what kept it from being asked, or from answering
  bool was_reached = false;        // before that
  std::optional<std::string> no_login;  // it wants one, and says so

  Fields hello;
  Fields info;
  Fields config;
  std::optional<std::string> info_refused;    // what it says instead
  std::optional<std::string> config_refused;  // likewise

  std::vector<std::string> missing_commands;  // as rights have them
  bool keys_are_missing = false;
  std::vector<std::string> missing_for_watch;  // commands, or the right to its channels
  // Its answer to commands that read and write, if it takes none now: "LOADING ...".
  std::optional<std::string> refuses_work;
  // Its answer to a script that used a key which it had not declared, if it lets scripts
  // use only others.
  std::optional<std::string> refuses_undeclared;

  std::vector<std::chrono::nanoseconds> round_trips;
  std::optional<std::chrono::microseconds> clock_ahead;  // of ours
};

// A line for each check, in the order in which one leads to the next.
std::vector<Finding> findings_of(const Facts& facts);

}  // namespace dlock::redis
