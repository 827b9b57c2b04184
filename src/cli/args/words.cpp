#include "cli/args/words.hpp"

namespace dlock {
namespace {

// Adds the option in `word` to `options`. Returns whether its value is the next word.
// Returns nothing if there is no such option, or if it is a flag with a value.
std::optional<bool> add_option(const std::string& word, const TakesValue& takes_value,
                               std::vector<std::string>& options) {
  if (word.starts_with("--")) {
    const auto equals = word.find('=');
    const auto takes = takes_value(std::string_view(word).substr(0, equals).substr(2));
    if (equals == std::string::npos) {
      if (takes) options.push_back(word);
      return takes;
    }
    if (!takes.value_or(false)) return std::nullopt;
    options.push_back(word.substr(0, equals));
    options.push_back(word.substr(equals + 1));
    return false;
  }
  // Combined letters: flags, and possibly one option with a value at the end.
  bool takes_one = false;
  auto letter = word.begin() + 1;
  while (!takes_one && letter != word.end()) {
    const auto takes = takes_value(std::string_view(&*letter++, 1));
    if (!takes) return std::nullopt;
    takes_one = *takes;
  }
  options.push_back(word);
  return takes_one && letter == word.end();
}

}  // namespace

Words sorted_words(const std::vector<std::string>& args, std::size_t most_operands,
                   const TakesValue& takes_value) {
  Words words;
  bool options_ended = false;
  for (auto word = args.begin(); word != args.end(); ++word) {
    const bool operands_full = words.operands.size() == most_operands;
    if (*word == "--" && (!options_ended || operands_full)) {
      if (operands_full) {
        words.announces_command = true;
        words.command.assign(word + 1, args.end());
        return words;
      }
      options_ended = true;
      words.starts_with_dashes = words.operands.empty();
    } else if (!options_ended && word->size() > 1 && word->front() == '-') {
      const auto value_follows = add_option(*word, takes_value, words.options);
      if (!value_follows) {
        words.unknown = *word;
        return words;
      }
      // If it is missing, the parser reports that.
      if (*value_follows && word + 1 != args.end()) words.options.push_back(*++word);
    } else if (operands_full) {
      words.command.assign(word, args.end());
      return words;
    } else {
      if (words.operands.empty()) {
        words.first_operand = static_cast<std::size_t>(word - args.begin());
      }
      words.operands.push_back(*word);
    }
  }
  return words;
}

}  // namespace dlock
