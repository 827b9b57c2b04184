#include <gtest/gtest.h>

#include <string>

#include "cli/args/config_file.hpp"

namespace dlock {
namespace {

std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

TEST(TomlDepth, AHundredLevelsAreAccepted) {
  const auto arrays = "a = " + repeated("[", 100) + repeated("]", 100) + "\n";
  EXPECT_EQ(line_nested_too_deeply(repeated(arrays, 10)), std::nullopt);
  EXPECT_EQ(line_nested_too_deeply(repeated("a.", 100) + "a = 1\n"), std::nullopt);
}

TEST(TomlDepth, MoreLevelsAreReportedWithTheirLine) {
  EXPECT_EQ(line_nested_too_deeply("b = 1\na = " + repeated("[\n", 101)), 102U);
  EXPECT_EQ(line_nested_too_deeply("a = " + repeated("{b = ", 101)), 1U);
  EXPECT_EQ(line_nested_too_deeply("\n" + repeated("a.", 101) + "a = 1"), 2U);
  EXPECT_EQ(line_nested_too_deeply("[" + repeated("a.", 101) + "a]"), 1U);
}

// A table in each part of a key that has many parts is nested as deeply as both together.
TEST(TomlDepth, PartsOfAKeyCountInTheTablesOfItsValue) {
  const auto parts = [](std::size_t dots) { return repeated("a.", dots) + "a = "; };
  EXPECT_EQ(line_nested_too_deeply(parts(50) + "{" + parts(50) + "1}"), 1U);
  EXPECT_EQ(line_nested_too_deeply(parts(50) + "{" + parts(49) + "1}"), std::nullopt);
  EXPECT_EQ(line_nested_too_deeply(parts(50) + "[{" + parts(50) + "1}]"), 1U);
  EXPECT_EQ(line_nested_too_deeply("b = 1\n" + repeated(parts(9) + "{", 11)), 2U);
}

TEST(TomlDepth, KeysAndValuesBesideEachOtherDoNotAddUp) {
  EXPECT_EQ(line_nested_too_deeply(repeated("a.b.c = 1.5\n", 200)), std::nullopt);
  EXPECT_EQ(line_nested_too_deeply("a = [" + repeated("1.5, {b.c = 1.5}, ", 200) + "]"),
            std::nullopt);
  EXPECT_EQ(line_nested_too_deeply(repeated("[a.b.c]\nd.e = {f.g = 1}\n", 200)),
            std::nullopt);
}

TEST(TomlDepth, StringsAndCommentsAreSkipped) {
  const auto many = repeated("[{.", 101);
  EXPECT_EQ(line_nested_too_deeply("a = \"" + many + "\""), std::nullopt);
  EXPECT_EQ(line_nested_too_deeply("a = '" + many + "'"), std::nullopt);
  EXPECT_EQ(line_nested_too_deeply("a = \"\"\"\n" + many + "\"\"\""), std::nullopt);
  EXPECT_EQ(line_nested_too_deeply("a = '''\n" + many + "'''"), std::nullopt);
  EXPECT_EQ(line_nested_too_deeply("a = 1 # " + many), std::nullopt);
}

// Brackets in strings must not hide those outside.
TEST(TomlDepth, NothingAfterAStringIsSkipped) {
  for (const std::string text :
       {R"("]")", R"("\"]")", R"('\')", R"("")", R"('')", R"("""]"]""")", R"("""]"""")",
        R"("""]""""")", R"('''']''')", R"("""""")", R"('''''')", R"("]\\")"}) {
    EXPECT_EQ(line_nested_too_deeply("a = " + repeated("[" + text + ",", 101)), 1U)
        << text;
  }
}

TEST(TomlDepth, FilesThatEndWithinAStringAreAccepted) {
  for (const std::string text : {"\"", "'", "\"\"\"", "\"\"\"\"", "\"\\", "'''''", "#"}) {
    EXPECT_EQ(line_nested_too_deeply("a = " + text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace dlock
