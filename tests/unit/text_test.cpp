// Text from untrusted sources: what is printable, how other text is shown, encoded and
// decoded.

#include "util/text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace dlock {
namespace {

using namespace std::chrono_literals;

TEST(Printable, text_is_printable_with_the_first_and_last_character_of_each_length) {
  for (const char* text :
       {"nightly job: a/b", "\xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x94\x92 \xC3\xA9", "",
        "\xC2\xA0\xDF\xBF", "\xE0\xA0\x80\xEF\xBF\xBD",
        "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_printable_utf8(text)) << text;
  }
}

TEST(Printable, control_characters_are_not_printable) {
  for (int c = 0; c < 0x20; ++c) {
    EXPECT_FALSE(is_printable_utf8(std::string(1, static_cast<char>(c)))) << c;
  }
  EXPECT_FALSE(is_printable_utf8("\x7F"));
  EXPECT_FALSE(is_printable_utf8("\xC2\x9B"));
}

TEST(Printable, characters_that_reorder_or_hide_text_are_not_printable) {
  for (const char* text :
       {"\xE2\x80\x8E", "\xE2\x80\x8F", "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAA",
        "\xE2\x80\xAE", "\xE2\x81\xA6", "\xE2\x81\xA9", "\xD8\x9C", "\xEF\xBB\xBF"}) {
    EXPECT_FALSE(is_printable_utf8(text)) << printable(text);
  }
}

TEST(Printable, invalid_utf8_is_not_printable) {
  for (const char* text : {"\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
                           "\xED\xBF\xBF", "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80",
                           "\xC3", "\xE2\x82", "\xF0\x9F\x94", "\xC3\xC3"}) {
    EXPECT_FALSE(is_printable_utf8(text)) << printable(text);
  }
}

TEST(Printable, other_characters_are_shown_escaped) {
  const std::pair<std::string, const char*> texts[] = {
      {"na\xC3\xAFve job", "na\xC3\xAFve job"},
      {"a\nb\tc\rd", "a\\nb\\tc\\rd"},
      {"\x1b[31m", "\\x1b[31m"},
      {"\xFF", "\\xff"},
      {"\xE2\x80\xAE", "\\xe2\\x80\\xae"},
      {std::string(1, '\0'), "\\x00"},
      {"\\n", "\\\\n"}};  // so that escapes cannot be faked
  for (const auto& [text, shown] : texts) EXPECT_EQ(printable(text), shown);
}

TEST(Printable, shown_text_is_always_printable) {
  for (int c = 0; c < 256; ++c) {
    const auto shown = printable(std::string(1, static_cast<char>(c)));
    EXPECT_TRUE(is_printable_utf8(shown)) << c;
  }
}

TEST(Printable, long_text_is_cut_between_characters) {
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("abc", 3), "abc");
  EXPECT_TRUE(is_printable_utf8(printable("a\xE6\x97\xA5\xE6\x9C\xAC", 2)));
}

TEST(ShellQuoted, text_is_one_word_that_a_shell_does_not_change) {
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("$x `y` \\ \"z\""), "'$x `y` \\ \"z\"'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
}

TEST(PrintableCommand, arguments_are_quoted_and_escaped_where_they_need_it) {
  EXPECT_EQ(printable_command({"make", "-j2", "all"}), "make -j2 all");
  EXPECT_EQ(printable_command({"sh", "-c", "a b", "", "$x"}), "sh -c 'a b' '' '$x'");
  EXPECT_EQ(printable_command({"echo", "\x1b[2J"}), "echo '\\x1b[2J'");
}

TEST(PrintableCommand, long_commands_are_cut) {
  const auto shown = printable_command(std::vector<std::string>(100, "argument"), 20);

  EXPECT_TRUE(shown.ends_with("..."));
  EXPECT_LT(shown.size(), 30u);
}

TEST(PercentEncoding, all_but_letters_digits_and_some_signs_is_hexadecimal) {
  EXPECT_EQ(percent_encoded("aZ09-_./@:"), "aZ09-_./@:");
  EXPECT_EQ(percent_encoded("a b={}%\xC3"), "a%20b%3D%7B%7D%25%C3");
}

TEST(PercentEncoding, every_byte_is_decoded_to_what_it_was) {
  for (int c = 0; c < 256; ++c) {
    const std::string text(1, static_cast<char>(c));
    EXPECT_EQ(percent_decoded(percent_encoded(text)), text) << c;
  }
}

TEST(PercentEncoding, text_that_the_encoder_would_not_have_written_is_not_decoded) {
  for (const char* text : {"%", "%2", "a%2", "%G0", "%0g", "%2d", "%41", "%c3", " ",
                           "a b", "=", "%%", "%-1", "\xC3"}) {
    EXPECT_FALSE(percent_decoded(text)) << text;
  }
}

TEST(ForPeople, the_two_largest_units_are_shown) {
  constexpr std::pair<milliseconds, const char*> times[] = {
      {-5s, "0ms"},
      {0ms, "0ms"},
      {250ms, "250ms"},
      {999ms, "999ms"},
      {1000ms, "1.0s"},
      {3250ms, "3.2s"},
      {9999ms, "9.9s"},
      {10s, "10s"},
      {12s, "12s"},
      {60s, "1m0s"},
      {3min + 12s, "3m12s"},
      {1h, "1h0m"},
      {2h + 5min + 59s, "2h5m"},
      {24h, "1d0h"},
      {4 * 24h + 3h + 59min, "4d3h"}};
  for (const auto& [time, text] : times) EXPECT_EQ(for_people(time), text);
}

TEST(Hex, bytes_are_decoded_to_what_they_were) {
  const std::uint8_t bytes[] = {0x00, 0x01, 0x7f, 0xff};
  std::uint8_t read[4] = {};

  EXPECT_EQ(hex(bytes, 4), "00017fff");
  EXPECT_TRUE(from_hex("00017fff", read, 4));
  EXPECT_TRUE(std::equal(bytes, bytes + 4, read));
  EXPECT_TRUE(from_hex("00017FFF", read, 4));
}

TEST(Hex, other_text_is_refused) {
  std::uint8_t read[2];
  for (const char* text : {"", "0", "001", "00112", "001122", "00 1", "0x11", "+011",
                           "-011", "00g1", "001\n"}) {
    EXPECT_FALSE(from_hex(text, read, 2)) << text;
  }
}

TEST(Rfc3339, a_moment_is_written_in_utc_with_milliseconds_and_read_so) {
  EXPECT_EQ(rfc3339(0us), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(rfc3339(1'709'210'096'789'123us), "2024-02-29T12:34:56.789Z");
  EXPECT_EQ(from_rfc3339("2024-02-29T12:34:56.789Z"), 1'709'210'096'789'000us);
}

TEST(Rfc3339, text_in_any_other_form_is_refused) {
  for (const char* text :
       {"", "now", "2024-02-29", "2024-02-29T12:34:56Z", "2024-02-29T12:34:56.789",
        "2024-02-29T12:34:56.789Zx", "2024-02-29 12:34:56.789Z",
        "x2024-02-29T12:34:56.789Z", "2024-2-9T1:3:5.7Z", "2024-13-01T00:00:00.000Z",
        "2023-02-29T12:34:56.789Z", "+024-02-29T12:34:56.789Z"}) {
    EXPECT_FALSE(from_rfc3339(text)) << text;
  }
}

}  // namespace
}  // namespace dlock
