// Parses the command line.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/args/options.hpp"
#include "cli/args/verb_table.hpp"

namespace dlock {

// The version of the program. The build generates its definition (cmake/Version.cmake).
extern const char* const program_version;

// The verb to run, with every setting resolved: the command line takes precedence over
// the environment, and the environment over the configuration file.
struct Invocation {
  const VerbSpec* verb = nullptr;
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

// The two steps of parsed():

// Whether an option takes a value; nothing if there is no such option. The argument is
// the name of a long option ("wait") or a letter ("w").
using TakesValue = std::function<std::optional<bool>(std::string_view option)>;

struct Words {
  std::vector<std::string> options;   // with their values, for the option parser
  std::vector<std::string> operands;  // at most `most_operands`
  std::vector<std::string> command;   // everything after them, unchanged
  std::string unknown;                // the word that is not an option, if there is one
  std::size_t first_operand = 0;      // its index, if there is one
  bool announces_command = false;     // whether `--` follows the last possible operand
  bool starts_with_dashes = false;    // whether `--` stands before the first operand
};

// Splits `args`. Options may stand before, between and after the operands. The command
// begins at the first word that is not an option once there are `most_operands`. `--`
// ends the options; a second one right before the command is skipped. Nothing after an
// unknown option, or a flag with a value, is examined: the next word could be its value,
// so it is not known where the command begins.
//
// Options are kept as they are, except that "--wait=5" becomes two words, because the
// parser treats an empty value after `=` as a missing one.
Words sorted_words(const std::vector<std::string>& args, std::size_t most_operands,
                   const TakesValue& takes_value);

// What was requested instead of running the verb.
enum class Asked { help, version };

// The values of `options`, which are words as sorted_words() returns them. If an option
// is repeated, the last one counts. Throws UsageError.
std::variant<OptionValues, Asked> option_values(Verb verb,
                                                const std::vector<std::string>& options);

}  // namespace dlock
