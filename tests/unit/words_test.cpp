// Which words of a command line are dlock's options, its operands, or the command.

#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "cli/args/app.hpp"

namespace dlock {
namespace {

// Some options of `run`, with a value and without.
std::optional<bool> takes_value(std::string_view option) {
  static const std::map<std::string_view, bool> known{
      {"wait", true},    {"w", true},  {"ttl", true}, {"t", true},
      {"quiet", false},  {"q", false}, {"v", false},  {"verbose", false},
      {"shared", false}, {"s", false}};
  const auto found = known.find(option);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

// The words of a line; '' is an empty one.
std::vector<std::string> words_in(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word == "''" ? "" : word);
  return words;
}

std::string line_of(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) line += (word.empty() ? "''" : word) + " ";
  return line;
}

// "options | operands | command", and what is unknown: "| ? --bogus".
std::string sorted(const std::string& line, std::size_t operands = 1) {
  const auto words = sorted_words(words_in(line), operands, takes_value);
  auto text = line_of(words.options) + "| " + line_of(words.operands) + "| " +
              line_of(words.command);
  if (!words.unknown.empty()) text += "| ? " + words.unknown + " ";
  text.pop_back();
  return text;
}

TEST(Words, are_options_operands_and_the_command) {
  constexpr std::pair<const char*, const char*> lines[] = {
      {"", "| |"},
      {"job make all", "| job | make all"},
      // Options stand before the name, or between it and the command.
      {"-q --wait 5 job make", "-q --wait 5 | job | make"},
      {"job -w 5 --quiet make", "-w 5 --quiet | job | make"},
      {"job make -w 5 --quiet -- --bogus", "| job | make -w 5 --quiet -- --bogus"},
      // A value is not the command, and may look like an option.
      {"job --wait make true", "--wait make | job | true"},
      {"--wait -q job true", "--wait -q | job | true"},
      {"--wait -- job true", "--wait -- | job | true"},
      {"--wait '' job true", "--wait '' | job | true"},
      {"--wait=5 job true", "--wait 5 | job | true"},
      {"--wait=a=b job true", "--wait a=b | job | true"},
      {"--wait= job true", "--wait '' | job | true"},
      {"job --wait", "--wait | job |"},
      // The parser separates letters and values that share a word.
      {"-w5 job true", "-w5 | job | true"},
      {"-qv job true", "-qv | job | true"},
      {"-qw5 job true", "-qw5 | job | true"},
      {"-wq job true", "-wq | job | true"},
      {"-qw 5 job true", "-qw 5 | job | true"},
      // Two dashes end the options, or begin the command.
      {"-q -- -job -true -q", "-q | -job | -true -q"},
      {"job -- -true -q", "| job | -true -q"},
      {"-- job -- -true", "| job | -true"},
      {"job -- true -- x", "| job | true -- x"},
      // One dash, or an empty word, is not an option.
      {"- -", "| - | -"},
      {"'' ''", "| '' | ''"}};
  for (const auto& [line, text] : lines) EXPECT_EQ(sorted(line), text) << line;
  // Without operands, the first word that is not an option begins the command.
  EXPECT_EQ(sorted("-q run -w 5", 0), "-q | | run -w 5");
}

TEST(Words, that_are_unknown_end_the_search) {
  constexpr std::pair<const char*, const char*> lines[] = {
      {"-q job --bogus true", "-q | job | | ? --bogus"},
      {"--bogus --wait 5 job", "| | | ? --bogus"},
      {"-qx job true", "| | | ? -qx"},
      {"--wai 5 job", "| | | ? --wai"},
      {"--quiet=yes job true", "| | | ? --quiet=yes"},
      {"--quiet= job true", "| | | ? --quiet="},
      // In the command, nothing is unknown.
      {"job make --bogus", "| job | make --bogus"},
      {"job -- --bogus", "| job | --bogus"}};
  for (const auto& [line, text] : lines) EXPECT_EQ(sorted(line), text) << line;
}

TEST(Words, a_double_dash_after_the_name_announces_a_command_even_if_there_is_none) {
  constexpr std::pair<const char*, bool> lines[] = {
      {"job --", true}, {"-- job --", true}, {"job -- make", true},
      {"job", false},   {"-- job", false},   {"-- job make --", false}};
  for (const auto& [line, announces] : lines) {
    const auto words = sorted_words(words_in(line), 1, takes_value);
    EXPECT_EQ(words.announces_command, announces) << line;
  }
}

}  // namespace
}  // namespace dlock
