// The file of admitted fences: a read returns what was written, or nothing.

#include <gtest/gtest.h>

#include "store/local/text_files.hpp"

namespace dlock::local {
namespace {

const FencesAdmitted some{{{"dlock", "disk"}, {10}},
                          {{"dlock", "two words"}, {18'446'744'073'709'551'615u}},
                          {{"a b", "{x}"}, {1}}};

TEST(RegistersText, is_read_as_it_was_written) {
  EXPECT_EQ(registers_from(registers_text(some)), some);
  EXPECT_EQ(registers_from(registers_text({})), FencesAdmitted{});
}

TEST(RegistersText, has_a_line_for_each_resource) {
  EXPECT_TRUE(registers_text(some).starts_with("a%20b %7Bx%7D 1\ndlock disk 10\n"));
}

TEST(RegistersText, that_is_truncated_is_invalid) {
  const auto text = registers_text(some);
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(registers_from(text.substr(0, size))) << size;
  }
}

TEST(RegistersText, with_a_changed_byte_is_invalid) {
  const auto text = registers_text(some);
  for (std::size_t at = 0; at < text.size(); ++at) {
    auto changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(registers_from(changed)) << at;
  }
}

}  // namespace
}  // namespace dlock::local
