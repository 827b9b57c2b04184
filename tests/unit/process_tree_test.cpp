// Who descends from whom.

#include "supervise/process_tree.hpp"

#include <gtest/gtest.h>

namespace dlock {
namespace {

using Pids = std::vector<pid_t>;

ProcessInfo process(pid_t pid, pid_t parent) {
  ProcessInfo info;
  info.pid = pid;
  info.parent = parent;
  return info;
}

ProcessInfo dead(ProcessInfo info) {
  info.is_dead = true;
  return info;
}

Pids below(pid_t root, const std::vector<ProcessInfo>& all) {
  Pids pids;
  for (const auto& found : descendants(root, all)) pids.push_back(found.pid);
  return pids;
}

TEST(Descendants, of_a_process_without_children_are_none) {
  EXPECT_EQ(below(10, {process(1, 0), process(10, 1), process(11, 1)}), Pids{});
}

TEST(Descendants, are_its_children) {
  EXPECT_EQ(below(10, {process(10, 1), process(11, 10), process(12, 10)}),
            (Pids{11, 12}));
}

TEST(Descendants, are_the_children_of_its_children_too) {
  EXPECT_EQ(below(10, {process(10, 1), process(11, 10), process(12, 11)}),
            (Pids{11, 12}));
}

TEST(Descendants, are_not_those_of_others) {
  EXPECT_EQ(below(10, {process(10, 1), process(20, 1), process(21, 20)}), Pids{});
}

TEST(Descendants, come_after_their_parents_even_if_they_have_lower_numbers) {
  EXPECT_EQ(below(10, {process(2, 3), process(3, 11), process(10, 1), process(11, 10)}),
            (Pids{11, 3, 2}));
}

TEST(Descendants, are_only_the_living) {
  EXPECT_EQ(below(10, {process(11, 10), dead(process(12, 10))}), (Pids{11}));
}

TEST(Descendants, are_the_living_children_of_the_dead_too) {
  EXPECT_EQ(below(10, {dead(process(11, 10)), process(12, 11)}), (Pids{12}));
}

TEST(Descendants, are_not_strangers_nor_what_is_below_them) {
  const std::vector<ProcessInfo> all{process(11, 10), process(12, 10), process(13, 11)};

  const auto found = descendants(10, all, {11});

  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].pid, 12);
}

TEST(Descendants, do_not_include_the_process_itself) {
  EXPECT_EQ(below(10, {process(10, 10), process(11, 10)}), (Pids{11}));
}

TEST(Descendants, are_found_once_in_a_listing_that_is_torn) {
  EXPECT_EQ(below(10, {process(11, 12), process(12, 11), process(11, 10)}).size(), 2u);
}

}  // namespace
}  // namespace dlock
