// Parses the command line.
#pragma once

#include <string>
#include <vector>

#include "cli/args/options.hpp"
#include "cli/args/verb.hpp"

namespace dlock {

// The verb to run, with every setting resolved: the command line takes precedence over
// the environment, and the environment over the configuration file.
struct Invocation {
  Verb verb = Verb::run;
  Settings settings;
  CommonOptions common;  // from the settings
  std::vector<std::string> operands;
  std::vector<std::string> command;
  std::string config;  // absolute path of the named file; empty if none was named

  // Printed before anything else happens, unless --quiet is set.
  std::vector<std::string> warnings;

  // The variables that a nested dlock needs to use the same store, such as
  // "DLOCK_USER=alice". They contain no secrets, and files are absolute paths.
  std::vector<std::string> passed_on;
};

// Text to print instead of running a verb: the help or the version.
struct Print {
  std::string text;
};

// Parses the command line. Throws UsageError if it is invalid, and Failure if the
// configuration file cannot be used or the store URL is invalid.
std::variant<Invocation, Print> parsed(const std::vector<std::string>& args);

}  // namespace dlock
