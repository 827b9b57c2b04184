// Whether standard error is a stream of the systemd journal.

#include <gtest/gtest.h>

#include "util/failure.hpp"

namespace dlock {
namespace {

TEST(JournalStream, names_a_file_by_device_and_inode) {
  EXPECT_TRUE(names_stream("9:47112", 9, 47112));
  EXPECT_TRUE(names_stream("18446744073709551615:18446744073709551615",
                           18446744073709551615ULL, 18446744073709551615ULL));
}

TEST(JournalStream, differs_if_either_number_differs) {
  EXPECT_FALSE(names_stream("9:47112", 8, 47112));
  EXPECT_FALSE(names_stream("9:47112", 9, 47113));
  EXPECT_FALSE(names_stream("9:47112", 47112, 9));
}

TEST(JournalStream, is_not_named_by_malformed_text) {
  for (const auto* text :
       {"", ":", "9", "9:", ":47112", "9:47112:", "9:471120", " 9:47112", "9:47112 ",
        "9:47112\n", "09:47112", "+9:47112", "0x9:47112"}) {
    EXPECT_FALSE(names_stream(text, 9, 47112)) << text;
  }
  EXPECT_FALSE(names_stream("", 0, 0));
}

}  // namespace
}  // namespace dlock
