// Splits a command line into dlock's options, its operands and the command.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlock {

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

}  // namespace dlock
