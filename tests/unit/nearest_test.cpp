// Which word a mistyped one was meant to be.

#include <gtest/gtest.h>

#include <string>

#include "cli/args/usage_hint.hpp"

namespace dlock {
namespace {

constexpr std::string_view verbs[] = {"run",    "acquire", "renew", "release",
                                      "status", "watch",   "list",  "limit"};

std::string meant(std::string_view mistyped) {
  return std::string(nearest(mistyped, verbs).value_or("(none)"));
}

TEST(Nearest, counts_a_missing_added_changed_or_swapped_letter_as_one_edit) {
  EXPECT_EQ(edits_between("wait", "wait"), 0U);
  EXPECT_EQ(edits_between("wit", "wait"), 1U);
  EXPECT_EQ(edits_between("waiit", "wait"), 1U);
  EXPECT_EQ(edits_between("wajt", "wait"), 1U);
  EXPECT_EQ(edits_between("wiat", "wait"), 1U);
  EXPECT_EQ(edits_between("awti", "wait"), 2U);
  EXPECT_EQ(edits_between("", "wait"), 4U);
  EXPECT_EQ(edits_between("wait", ""), 4U);
}

TEST(Nearest, finds_a_word_one_edit_away_and_a_longer_one_at_most_two) {
  EXPECT_EQ(meant("rnu"), "run");
  EXPECT_EQ(meant("Run"), "run");
  EXPECT_EQ(meant("lists"), "list");
  EXPECT_EQ(meant("stauts"), "status");
  EXPECT_EQ(meant("sttaus"), "status");
  EXPECT_EQ(meant("aqcuier"), "acquire");
  EXPECT_EQ(meant("lsit"), "list");
  EXPECT_EQ(meant("ltsi"), "(none)");
  EXPECT_EQ(meant("aqcuaer"), "(none)");
}

TEST(Nearest, takes_the_nearer_of_two_words) { EXPECT_EQ(meant("renwe"), "renew"); }

TEST(Nearest, breaks_a_tie_by_the_longer_common_prefix) {
  EXPECT_EQ(edits_between("limt", "list"), edits_between("limt", "limit"));
  EXPECT_EQ(meant("limt"), "limit");
}

TEST(Nearest, takes_the_first_of_two_words_that_still_tie) {
  constexpr std::string_view both[] = {"cart", "card"};
  EXPECT_EQ(nearest("carx", both), "cart");
}

TEST(Nearest, completes_an_unambiguous_prefix_of_any_length) {
  EXPECT_EQ(meant("acq"), "acquire");
  EXPECT_EQ(meant("w"), "watch");
}

TEST(Nearest, does_not_complete_an_ambiguous_prefix) {
  EXPECT_EQ(meant("re"), "(none)");
  EXPECT_EQ(meant("l"), "(none)");
}

TEST(Nearest, finds_nothing_for_empty_distant_or_very_long_words) {
  EXPECT_EQ(meant(""), "(none)");
  EXPECT_EQ(meant("frobnicate"), "(none)");
  EXPECT_EQ(meant("xyz"), "(none)");
  EXPECT_EQ(meant(std::string(1 << 20, 'r')), "(none)");
  EXPECT_EQ(nearest("run", {}), std::nullopt);
  constexpr std::string_view one[] = {"run"};
  EXPECT_EQ(nearest("", one), std::nullopt);
}

}  // namespace
}  // namespace dlock
