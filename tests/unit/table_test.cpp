// Tables on terminals that are wide enough, and on narrower ones.

#include <gtest/gtest.h>

#include "cli/show/screen.hpp"

namespace dlock {
namespace {

Table with_row(std::vector<std::string> cells) {
  Table table({"NAME", "HOLDER", "COMMAND"});
  table.add(std::move(cells));
  return table;
}

TEST(TableText, columns_are_as_wide_as_their_widest_cell) {
  EXPECT_EQ(with_row({"a-long-name", "x", "y"}).text("", false),
            "NAME         HOLDER  COMMAND\na-long-name  x       y\n");
}

TEST(TableText, wide_characters_take_two_columns) {
  EXPECT_EQ(with_row({"日本語", "x", "y"}).text("", false),
            "NAME    HOLDER  COMMAND\n日本語  x       y\n");
}

TEST(TableText, a_table_that_fits_is_not_cut) {
  auto table = with_row({"a-long-name", "x", "y"});

  EXPECT_EQ(table.text("", false, 28), table.text("", false));
  EXPECT_NE(table.text("", false, 27), table.text("", false));
}

TEST(TableText, the_widest_cells_are_cut_first) {
  EXPECT_EQ(with_row({"a-long-name", "root@web1", "make everything at once"})
                .text("", false, 40),
            "NAME         HOLDER     COMMAND\n"
            "a-long-name  root@web1  make everythi...\n");
}

TEST(TableText, the_indent_counts) {
  EXPECT_EQ(with_row({"a-long-name", "x", "y"}).text("  ", false, 29),
            "  NAME        HOLDER  COMMAND\n  a-long-...  x       y\n");
}

TEST(TableText, the_last_columns_are_left_out_if_little_of_them_would_be_left) {
  auto table = with_row({"a-long-name", "root@web1", "make everything at once"});

  EXPECT_EQ(table.text("", false, 24),
            "NAME      HOLDER    COMM\na-lon...  root@...  make\n");
  EXPECT_EQ(table.text("", false, 23), "NAME         HOLDER\na-long-name  root@web1\n");
  EXPECT_EQ(table.text("", false, 10), "NAME\na-long-...\n");
}

TEST(TableText, colours_take_no_room) {
  const auto green = colored("exit 0", Paint::green, true);

  EXPECT_EQ(with_row({"job", "x", green}).text("", false, 20),
            "NAME  HOLDER  COM...\n"
            "job   x       " +
                green + "\n");
}

}  // namespace
}  // namespace dlock
