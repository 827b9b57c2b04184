// What dlock doctor says of a directory, where that is hard to come by.

#include "store/local/local_health.hpp"

#include <gtest/gtest.h>

namespace dlock::local {
namespace {

using Level = Finding::Level;

TEST(LocalHealth, little_space_is_a_warning_and_hardly_any_is_an_error) {
  const auto with = [](std::uint64_t bytes, std::optional<std::uint64_t> files) {
    std::vector<Finding> findings;
    CheckReport say("space", findings);
    judge_space(bytes, files, say);
    return findings.at(0).level;
  };
  constexpr std::uint64_t mebibyte = 1u << 20u;

  EXPECT_EQ(with(16 * mebibyte, 100), Level::ok);
  EXPECT_EQ(with(16 * mebibyte, std::nullopt), Level::ok);
  EXPECT_EQ(with(16 * mebibyte - 1, 100), Level::warning);
  EXPECT_EQ(with(16 * mebibyte, 99), Level::warning);
  EXPECT_EQ(with(mebibyte - 1, 100), Level::error);
  EXPECT_EQ(with(16 * mebibyte, 0), Level::error);
}

TEST(LocalHealth, of_many_files_the_first_are_listed) {
  EXPECT_EQ(listed({"a", "b", "c"}, 3), "a, b, c");
  EXPECT_EQ(listed({"a", "b", "c", "d", "e"}, 3), "a, b, c, 2 more");
}

}  // namespace
}  // namespace dlock::local
