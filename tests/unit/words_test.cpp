// Which words of a command line are dlock's options, its operands, or the command.

#include <gtest/gtest.h>

#include <map>

#include "cli/args/app.hpp"

namespace dlock {
namespace {

using List = std::vector<std::string>;

// Some options of `run`, with a value and without.
std::optional<bool> takes_value(std::string_view option) {
  static const std::map<std::string_view, bool> known{
      {"wait", true},    {"w", true},  {"ttl", true}, {"t", true},
      {"quiet", false},  {"q", false}, {"v", false},  {"verbose", false},
      {"shared", false}, {"s", false}};
  const auto found = known.find(option);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

Words sorted(const List& args) { return sorted_words(args, 1, takes_value); }

TEST(Words, the_command_begins_after_the_name) {
  const auto words = sorted({"job", "make", "all"});

  EXPECT_EQ(words.operands, (List{"job"}));
  EXPECT_EQ(words.command, (List{"make", "all"}));
  EXPECT_EQ(words.options, List{});
}

TEST(Words, a_double_dash_after_the_name_announces_a_command_even_if_there_is_none) {
  EXPECT_TRUE(sorted({"job", "--"}).announces_command);
  EXPECT_TRUE(sorted({"--", "job", "--"}).announces_command);
  EXPECT_TRUE(sorted({"job", "--", "make"}).announces_command);
  EXPECT_FALSE(sorted({"job"}).announces_command);
  EXPECT_FALSE(sorted({"--", "job"}).announces_command);
  EXPECT_FALSE(sorted({"--", "job", "make", "--"}).announces_command);
}

TEST(Words, options_may_stand_before_the_name) {
  const auto words = sorted({"-q", "--wait", "5", "job", "make"});

  EXPECT_EQ(words.options, (List{"-q", "--wait", "5"}));
  EXPECT_EQ(words.operands, (List{"job"}));
  EXPECT_EQ(words.command, (List{"make"}));
}

TEST(Words, options_may_stand_between_the_name_and_the_command) {
  const auto words = sorted({"job", "-w", "5", "--quiet", "make"});

  EXPECT_EQ(words.options, (List{"-w", "5", "--quiet"}));
  EXPECT_EQ(words.command, (List{"make"}));
}

TEST(Words, options_after_the_first_word_of_the_command_belong_to_it) {
  const auto words = sorted({"job", "make", "-w", "5", "--quiet", "--", "--bogus"});

  EXPECT_EQ(words.options, List{});
  EXPECT_EQ(words.command, (List{"make", "-w", "5", "--quiet", "--", "--bogus"}));
}

TEST(Words, the_value_of_an_option_is_not_the_command) {
  const auto words = sorted({"job", "--wait", "make", "true"});

  EXPECT_EQ(words.options, (List{"--wait", "make"}));
  EXPECT_EQ(words.command, (List{"true"}));
}

TEST(Words, the_value_of_an_option_may_look_like_an_option) {
  const auto words = sorted({"--wait", "-q", "job", "true"});

  EXPECT_EQ(words.options, (List{"--wait", "-q"}));
  EXPECT_EQ(words.operands, (List{"job"}));
}

TEST(Words, the_value_of_an_option_may_be_two_dashes) {
  const auto words = sorted({"--wait", "--", "job", "true"});

  EXPECT_EQ(words.options, (List{"--wait", "--"}));
}

// The parser separates letters and values that share a word.
TEST(Words, letters_in_one_word_are_left_as_they_are) {
  for (const std::string word : {"-w5", "-qv", "-qw5", "-wq"}) {
    const auto words = sorted({word, "job", "true"});

    EXPECT_EQ(words.options, List{word});
    EXPECT_EQ(words.operands, List{"job"});
  }
}

TEST(Words, the_last_of_several_letters_may_have_its_value_in_the_next_word) {
  const auto words = sorted({"-qw", "5", "job", "true"});

  EXPECT_EQ(words.options, (List{"-qw", "5"}));
  EXPECT_EQ(words.operands, List{"job"});
}

TEST(Words, a_value_may_follow_an_equals_sign) {
  EXPECT_EQ(sorted({"--wait=5", "job", "true"}).options, (List{"--wait", "5"}));
}

TEST(Words, a_value_after_an_equals_sign_may_have_one_itself) {
  EXPECT_EQ(sorted({"--wait=a=b", "job", "true"}).options, (List{"--wait", "a=b"}));
}

TEST(Words, an_empty_value_after_an_equals_sign_is_a_value) {
  const auto words = sorted({"--wait=", "job", "true"});

  EXPECT_EQ(words.options, (List{"--wait", ""}));
  EXPECT_EQ(words.operands, (List{"job"}));
}

TEST(Words, an_empty_word_is_a_value_too) {
  EXPECT_EQ(sorted({"--wait", "", "job", "true"}).options, (List{"--wait", ""}));
}

TEST(Words, an_option_whose_value_is_missing_is_left_to_the_parser) {
  EXPECT_EQ(sorted({"job", "--wait"}).options, (List{"--wait"}));
}

TEST(Words, a_flag_with_a_value_is_unknown) {
  EXPECT_EQ(sorted({"--quiet=yes", "job", "true"}).unknown, "--quiet=yes");
  EXPECT_EQ(sorted({"--quiet=", "job", "true"}).unknown, "--quiet=");
}

TEST(Words, two_dashes_before_the_name_end_the_options) {
  const auto words = sorted({"-q", "--", "-job", "-true", "-q"});

  EXPECT_EQ(words.options, (List{"-q"}));
  EXPECT_EQ(words.operands, (List{"-job"}));
  EXPECT_EQ(words.command, (List{"-true", "-q"}));
}

TEST(Words, two_dashes_after_the_name_begin_the_command) {
  const auto words = sorted({"job", "--", "-true", "-q"});

  EXPECT_EQ(words.operands, (List{"job"}));
  EXPECT_EQ(words.command, (List{"-true", "-q"}));
}

TEST(Words, two_dashes_may_stand_on_both_sides_of_the_name) {
  const auto words = sorted({"--", "job", "--", "-true"});

  EXPECT_EQ(words.operands, (List{"job"}));
  EXPECT_EQ(words.command, (List{"-true"}));
}

TEST(Words, two_dashes_after_those_that_begin_the_command_belong_to_it) {
  EXPECT_EQ(sorted({"job", "--", "true", "--", "x"}).command, (List{"true", "--", "x"}));
}

TEST(Words, an_unknown_option_is_reported) {
  const auto words = sorted({"-q", "job", "--bogus", "true"});

  EXPECT_EQ(words.unknown, "--bogus");
  EXPECT_EQ(words.options, (List{"-q"}));
  EXPECT_EQ(words.command, List{});
}

TEST(Words, nothing_after_an_unknown_option_is_examined) {
  const auto words = sorted({"--bogus", "--wait", "5", "job"});

  EXPECT_EQ(words.options, List{});
  EXPECT_EQ(words.operands, List{});
}

TEST(Words, an_unknown_letter_among_known_ones_is_reported_with_its_word) {
  EXPECT_EQ(sorted({"-qx", "job", "true"}).unknown, "-qx");
}

TEST(Words, the_beginning_of_an_options_name_is_not_that_option) {
  EXPECT_EQ(sorted({"--wai", "5", "job"}).unknown, "--wai");
}

TEST(Words, nothing_is_unknown_in_the_command) {
  EXPECT_EQ(sorted({"job", "make", "--bogus"}).unknown, "");
  EXPECT_EQ(sorted({"job", "--", "--bogus"}).unknown, "");
}

TEST(Words, a_single_dash_is_not_an_option) {
  const auto words = sorted({"-", "-"});

  EXPECT_EQ(words.operands, (List{"-"}));
  EXPECT_EQ(words.command, (List{"-"}));
}

TEST(Words, an_empty_word_is_not_an_option) {
  const auto words = sorted({"", ""});

  EXPECT_EQ(words.operands, (List{""}));
  EXPECT_EQ(words.command, (List{""}));
}

TEST(Words, without_operands_the_first_word_that_is_not_an_option_begins_the_command) {
  const auto words = sorted_words({"-q", "run", "-w", "5"}, 0, takes_value);

  EXPECT_EQ(words.options, (List{"-q"}));
  EXPECT_EQ(words.command, (List{"run", "-w", "5"}));
}

TEST(Words, an_empty_command_line_has_no_words) {
  const auto words = sorted({});

  EXPECT_EQ(words.options, List{});
  EXPECT_EQ(words.operands, List{});
  EXPECT_EQ(words.command, List{});
}

}  // namespace
}  // namespace dlock
