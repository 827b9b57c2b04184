// Patterns as in shells, and glob(7).

#include <fnmatch.h>
#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "util/utf8.hpp"

namespace dlock {
namespace {

TEST(Glob, counts_characters_and_not_bytes) {
  EXPECT_TRUE(matches_glob("?", "ü"));
  EXPECT_TRUE(matches_glob("?\u65e5", "\u672c\u65e5"));
  EXPECT_FALSE(matches_glob("??", "ü"));
  EXPECT_FALSE(matches_glob("?", ""));
}

TEST(Glob, compares_ranges_by_code_points) {
  EXPECT_TRUE(matches_glob("[a-ü]", "é"));
  EXPECT_TRUE(matches_glob("[ü-\u65e5]", "\u0416"));
  EXPECT_FALSE(matches_glob("[a-é]", "ü"));
  EXPECT_FALSE(matches_glob("[!a-ü]", "é"));
}

TEST(Glob, knows_the_classes_of_glob_7) {
  const std::vector<std::string> texts{"-", "5",      "A",       "a",
                                       "b", "\u00e4", ".hidden", "a/b"};
  const std::pair<const char*, std::vector<std::string>> rows[] = {
      {"[[:digit:]a]", {"5", "a"}},
      {"[[:alpha:]]", {"A", "a", "b"}},
      {"[[:nothing:]]", {}},
      {"[[=a=]b]", {"a", "b"}},
      {"[[.-.]b]", {"-", "b"}},
      {"[!a-c]", {"-", "5", "A", "\u00e4"}},
      {"[^a-c]", {"-", "5", "A", "\u00e4"}},
      {"*", texts},
      {"a*", {"a", "a/b"}},
      {"?hidden", {".hidden"}},
  };
  for (const auto& [pattern, wanted] : rows) {
    std::vector<std::string> found;
    for (const auto& text : texts) {
      if (matches_glob(pattern, text)) found.push_back(text);
    }
    EXPECT_EQ(found, wanted) << pattern;
  }
}

TEST(Glob, matches_invalid_utf8_byte_by_byte) {
  EXPECT_TRUE(matches_glob("\xff", "\xff"));
  EXPECT_FALSE(matches_glob("\xc3", "ü"));
  EXPECT_FALSE(matches_glob("[\xc3]", "ü"));
}

TEST(Glob, is_not_slowed_down_by_many_stars) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "*a";

  EXPECT_FALSE(matches_glob(pattern + "b", std::string(255, 'a')));
}

TEST(Glob, agrees_with_fnmatch_on_ascii) {
  constexpr std::string_view pieces[] = {"a", "b", "c", "-",  "*", "?",    "[",
                                         "]", "!", "^", "\\", "/", "[!a-", "[ab"};
  std::mt19937 random(1);
  const auto some = [&](std::size_t most, std::size_t of) {
    std::string text;
    for (auto left = random() % most; left > 0; --left) text += pieces[random() % of];
    return text;
  };
  for (int i = 0; i < 200'000; ++i) {
    const auto pattern = some(9, std::size(pieces));
    const auto text = some(6, std::size(pieces) - 2);

    ASSERT_EQ(matches_glob(pattern, text),
              ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0)
        << pattern << " and " << text;
  }
}

TEST(Literal, a_pattern_without_wildcards_is_its_text_without_backslashes) {
  EXPECT_EQ(literal_of("job"), "job");
  EXPECT_EQ(literal_of("a\\*\\\\b"), "a*\\b");
  for (const auto* pattern : {"a*", "?", "[a]", "a\\"}) {
    EXPECT_FALSE(literal_of(pattern)) << pattern;
  }
}

}  // namespace
}  // namespace dlock
