// Which words of a command line are dlock's options, operands, or the command's own.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlock {

// Whether an option takes a value; nothing if there is no such option. Asked with the
// name of a long option ("wait") or a letter ("w").
using TakesValue = std::function<std::optional<bool>(std::string_view option)>;

struct Words {
  std::vector<std::string> options;   // with their values, for the parser of options
  std::vector<std::string> operands;  // at most `most_operands`
  std::vector<std::string> command;   // what follows them, untouched
  std::string unknown;                // the word that is no option, if there is one
  std::size_t first_operand = 0;      // its place, if there is one
  bool announces_command = false;     // by a `--` behind the last operand that can be
};

// Sorts `args`. Options may stand before, between and after the operands, until the
// first word that is no option once there are `most_operands`: there the command
// begins. `--` ends the options; a second one right before the command is passed over.
// Nothing after an unknown option, or a flag with a value, is looked at: the next word
// could be its value, so that nobody can tell where the command begins.
//
// Options are left as they stand, except that "--wait=5" becomes two words: the parser
// takes an empty value after `=` for a missing one.
Words sorted_words(const std::vector<std::string>& args, std::size_t most_operands,
                   const TakesValue& takes_value);

}  // namespace dlock
