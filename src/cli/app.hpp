// The command line, taken apart.
#pragma once

#include <string>
#include <vector>

#include "cli/options.hpp"
#include "cli/verb.hpp"

namespace dlock {

// What the user wants, with every setting resolved: command line before environment
// before configuration file.
struct Invocation {
  Verb verb = Verb::run;
  Settings settings;
  CommonOptions common;  // from the settings
  std::vector<std::string> operands;
  std::vector<std::string> command;
  std::string config;  // absolute path of a file that was named; empty otherwise

  // What is said before anything is done, unless --quiet.
  std::vector<std::string> warnings;

  // What a dlock inside the command needs to get into the same store, as variables:
  // "DLOCK_USER=alice". No secrets; files by absolute paths.
  std::vector<std::string> passed_on;
};

// Something to print instead: help or version.
struct Print {
  std::string text;
};

// Takes the command line apart. Throws UsageError, and Failure for a configuration file
// that cannot be used or a store URL that is none.
std::variant<Invocation, Print> parsed(const std::vector<std::string>& args);

}  // namespace dlock
