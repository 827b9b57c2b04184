#include "cli/words.hpp"

namespace dlock {
namespace {

// How many of the words from `at` on belong to the option that stands there, written
// to `options` in the form that the parser takes; 0 if there is none like that.
std::size_t take_option(const std::vector<std::string>& args, std::size_t at,
                        const TakesValue& takes_value,
                        std::vector<std::string>& options) {
  const std::string& word = args[at];
  const auto with_next = [&](std::string option) -> std::size_t {
    options.push_back(std::move(option));
    if (at + 1 == args.size()) return 1;  // the parser says that a value is missing
    options.push_back(args[at + 1]);
    return 2;
  };
  if (word.starts_with("--")) {
    const auto equals = word.find('=');
    const auto name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    const auto takes = takes_value(name);
    if (!takes) return 0;
    if (!*takes) {
      if (equals != std::string::npos) return 0;
      options.push_back(word);
    } else if (equals == std::string::npos) {
      return with_next(word);
    } else {
      options.push_back("--" + name);
      options.push_back(word.substr(equals + 1));
    }
    return 1;
  }
  // Letters in one word: flags, and at the end perhaps one with a value.
  for (std::size_t i = 1; i < word.size(); ++i) {
    const std::string letter(1, word[i]);
    const auto takes = takes_value(letter);
    if (!takes) return 0;
    if (!*takes) {
      options.push_back("-" + letter);
    } else if (i + 1 == word.size()) {
      return with_next("-" + letter);
    } else {
      options.push_back("-" + letter);
      options.push_back(word.substr(i + 1));
      return 1;
    }
  }
  return 1;
}

}  // namespace

Words sorted_words(const std::vector<std::string>& args, std::size_t most_operands,
                   const TakesValue& takes_value) {
  Words words;
  bool options_ended = false;
  for (std::size_t at = 0; at < args.size();) {
    const std::string& word = args[at];
    const bool operands_full = words.operands.size() == most_operands;
    if (word == "--" && (!options_ended || operands_full)) {
      if (operands_full) {
        words.command.assign(args.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                             args.end());
        return words;
      }
      options_ended = true;
      ++at;
    } else if (!options_ended && word.size() > 1 && word.front() == '-') {
      const auto taken = take_option(args, at, takes_value, words.options);
      if (taken == 0) {
        words.unknown = word;
        return words;
      }
      at += taken;
    } else if (operands_full) {
      words.command.assign(args.begin() + static_cast<std::ptrdiff_t>(at), args.end());
      return words;
    } else {
      words.operands.push_back(word);
      ++at;
    }
  }
  return words;
}

}  // namespace dlock
