// The verbs of the command line: one row has everything about a verb. Before it, every
// exit status of dlock itself.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cli/args/settings.hpp"
#include "supervise/spawn.hpp"
#include "util/failure.hpp"

namespace dlock {

// If the command ran to its end, its own status is used instead. A test checks the manual
// and --help against this list.
enum class ExitStatus : int {
  success = 0,
  not_held = 1,               // the lock is free (status, break)
  warnings_found = not_held,  // doctor
  errors_found = 2,           // doctor
  critical = errors_found,    // history --nagios: no success in time
  unknown = 3,                // history --nagios: any failure
  usage = 64,                 // EX_USAGE
  unavailable = 69,           // EX_UNAVAILABLE: the store cannot be reached
  bug = 70,                   // EX_SOFTWARE
  not_obtained = 75,          // EX_TEMPFAIL: held by others, wait over
  lost = 76,             // the lease ended while the command ran, or is no longer ours
  permission = 77,       // EX_NOPERM
  misconfigured = 78,    // EX_CONFIG
  timed_out = 124,       // as timeout(1)
  no_resources = 125,    // the command could not be started
  not_executable = 126,  // as sh
  not_found = 127,       // as sh
};

constexpr int code_of(ExitStatus status) { return static_cast<int>(status); }

// The exit status for a Failure.
constexpr ExitStatus status_of(Failure::Kind kind) {
  switch (kind) {
    case Failure::Kind::rejected: return ExitStatus::permission;
    case Failure::Kind::misconfigured:
    case Failure::Kind::unsupported: return ExitStatus::misconfigured;
    case Failure::Kind::exhausted: return ExitStatus::no_resources;
    case Failure::Kind::unreachable:
    case Failure::Kind::interrupted: break;
  }
  return ExitStatus::unavailable;
}

// The exit status for a command that could not be started.
constexpr ExitStatus status_of(SpawnFailure::Kind kind) {
  switch (kind) {
    case SpawnFailure::Kind::not_found: return ExitStatus::not_found;
    case SpawnFailure::Kind::not_executable: return ExitStatus::not_executable;
    case SpawnFailure::Kind::no_resources:
    case SpawnFailure::Kind::too_late: break;
  }
  return ExitStatus::no_resources;
}

// How dlock ends: with an exit code, or by a signal.
struct Exit {
  Exit(ExitStatus status = ExitStatus::success) : code(code_of(status)) {}
  Exit(int exit_code, std::optional<int> signal) : code(exit_code), by_signal(signal) {}

  int code;
  std::optional<int> by_signal;
};

struct Invocation;

enum class Verb {
  run,
  acquire,
  renew,
  release,
  check,
  fence,
  status,
  list,
  watch,
  break_lock,
  cache,
  limit,
  history,
  doctor,
  config,
  help
};

// A set of verbs, with a bit for each.
using VerbSet = unsigned;

template <typename... Verbs>
constexpr VerbSet of(Verbs... verbs) {
  return ((1U << static_cast<unsigned>(verbs)) | ...);
}

// In the order of --help.
enum class VerbGroup { run, manual, look, operate, rate_and_cache };

// The tables [lock."NAME"] of a configuration file that apply to the verb: those of all
// locks, only those of cached values, or none.
enum class LockTable { of_all, of_values, none };

// What the verb does with a command.
enum class CommandUse {
  none,          // takes none
  after_answer,  // runs it after its own answer
  for_output     // standard output is the command's
};

// An exit status in --help.
struct ExitText {
  ExitStatus status = ExitStatus::success;
  std::string_view text;
};

struct VerbSpec {
  Verb verb;
  VerbGroup group;
  std::string_view usage;  // begins with its name
  std::string_view help;
  std::size_t least_operands = 1;
  std::size_t most_operands = 1;
  std::string_view operands[2] = {"lock name"};  // what is missing without them
  LockTable lock_table = LockTable::of_all;
  CommandUse command = CommandUse::none;

  Exit (*perform)(const Invocation& invocation) = nullptr;

  // Throws UsageError or Failure as the verb does for settings that it refuses, but
  // contacts no store and reads no file. Null: it has only common options.
  void (*check)(const Settings& settings) = nullptr;

  // The statuses that mean something else than for most verbs, in any order.
  ExitText exits[4] = {};

  constexpr std::string_view name() const { return usage.substr(0, usage.find(' ')); }
  bool takes_command() const { return command != CommandUse::none; }
};

// In the order of --help. The table is beside the verbs (cli/verbs/verbs.cpp).
std::span<const VerbSpec> all_verbs();

// Null if there is no such verb.
const VerbSpec* verb_named(std::string_view name);
std::string_view name_of(Verb verb);
std::vector<std::string_view> verb_names();

// Whether `verb` acts on the lock `name`, so that the table [lock."NAME"] applies to it.
bool is_about_lock(const VerbSpec& verb, std::string_view name);

}  // namespace dlock
