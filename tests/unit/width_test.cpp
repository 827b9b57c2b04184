// How much room text takes on a terminal.

#include <gtest/gtest.h>

#include "util/utf8.hpp"

namespace dlock {
namespace {

TEST(Width, characters_take_a_column_and_wide_ones_two) {
  EXPECT_EQ(columns_of(""), 0u);
  EXPECT_EQ(columns_of("job"), 3u);
  EXPECT_EQ(columns_of("größe"), 5u);
  EXPECT_EQ(columns_of("日本語"), 6u);
  EXPECT_EQ(columns_of("한국"), 4u);
  EXPECT_EQ(columns_of("ａ"), 2u);
  EXPECT_EQ(columns_of("🚀x"), 3u);
  EXPECT_EQ(columns_of("𠀀"), 2u);
}

TEST(Width, combining_characters_take_no_column) {
  EXPECT_EQ(columns_of("e\u0301"), 1u);
  EXPECT_EQ(columns_of("a\u200Db"), 2u);
  EXPECT_EQ(columns_of("\u0995\u09CD"), 1u);  // Bengali
}

TEST(Width, colours_take_no_column) {
  EXPECT_EQ(columns_of("\x1b[32mexit 0\x1b[0m"), 6u);
}

TEST(Width, text_that_fits_is_not_cut) {
  EXPECT_EQ(cut_to("exactly ten", 11), "exactly ten");
  EXPECT_EQ(cut_to("", 0), "");
  EXPECT_EQ(cut_to("日本語", 6), "日本語");
}

TEST(Width, text_that_does_not_fit_ends_with_dots) {
  EXPECT_EQ(cut_to("exactly ten", 10), "exactly...");
  EXPECT_EQ(cut_to("abcdefg", 6), "abc...");
}

TEST(Width, there_are_no_dots_if_there_is_little_room) {
  EXPECT_EQ(cut_to("abcdefg", 5), "abcde");
  EXPECT_EQ(cut_to("abcdefg", 0), "");
}

TEST(Width, no_character_is_cut_in_two) {
  EXPECT_EQ(cut_to("日本語日本語", 8), "日本...");  // 7 columns: a third one would make 9
  EXPECT_EQ(cut_to("日本", 3), "日");
}

TEST(Width, a_colour_ends_where_the_line_is_cut) {
  EXPECT_EQ(cut_to("\x1b[32mgreen grass\x1b[0m", 8), "\x1b[32mgreen...\x1b[0m");
}

TEST(Width, invalid_utf8_does_no_harm) {
  EXPECT_EQ(columns_of("\x1b"), 0u);
  EXPECT_NE(columns_of("a\xe6\x97"), 0u);
  EXPECT_EQ(cut_to("\xff\xff\xff", 1).size(), 1u);
}

}  // namespace
}  // namespace dlock
