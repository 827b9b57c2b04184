// Finds the children of this process and their descendants.

#include "supervise/process_scan.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "util/fd.hpp"
#include "util/process.hpp"

namespace dlock {
namespace {

// A child that lives until it is killed, with its own child.
class Family {
 public:
  Family() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    child_ = ::fork();
    if (child_ == 0) {
      const pid_t grandchild = ::fork();
      if (grandchild > 0) {
        [[maybe_unused]] const auto size =
            ::write(ends[1], &grandchild, sizeof grandchild);
      }
      for (;;) ::pause();
    }
    EXPECT_EQ(::read(ends[0], &grandchild_, sizeof grandchild_),
              static_cast<ssize_t>(sizeof grandchild_));
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Family() {
    ::kill(grandchild_, SIGKILL);
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  pid_t child() const { return child_; }
  pid_t grandchild() const { return grandchild_; }

 private:
  pid_t child_ = 0;
  pid_t grandchild_ = 0;
};

bool is_among(const ProcessScan::Children& children, pid_t pid) {
  return std::count(children.first, children.first + children.count, pid) == 1;
}

ScannedProcess process(pid_t pid, pid_t parent) {
  ScannedProcess made;
  made.pid = pid;
  made.parent = parent;
  return made;
}

TEST(MarkDescendants, finds_a_descendant_whose_pid_is_lower_than_its_parents) {
  ScannedProcess all[] = {process(9, 1), process(300, 9000), process(9000, 9),
                          process(50, 1)};

  EXPECT_TRUE(mark_descendants(all, 4, 9, nullptr));

  for (const auto& one : all) EXPECT_EQ(one.is_ours, one.pid >= 300) << one.pid;
}

TEST(MarkDescendants, says_that_a_parent_has_ended_since_its_child_was_read) {
  ScannedProcess all[] = {process(9, 1), process(300, 9000), process(8000, 9)};

  EXPECT_FALSE(mark_descendants(all, 3, 9, nullptr));

  EXPECT_FALSE(all[1].is_ours);
  EXPECT_TRUE(all[2].is_ours);
}

TEST(MarkDescendants, misses_nothing_if_only_the_first_process_is_invisible) {
  ScannedProcess all[] = {process(9, 1), process(40, 1), process(41, 0)};

  EXPECT_TRUE(mark_descendants(all, 3, 9, nullptr));
}

TEST(MarkDescendants, leaves_out_strangers_and_their_descendants) {
  ScannedProcess all[] = {process(9, 1), process(10, 9), process(11, 10), process(12, 9)};
  const std::set<pid_t> strangers{10};

  EXPECT_TRUE(mark_descendants(all, 4, 9, &strangers));

  for (const auto& one : all) EXPECT_EQ(one.is_ours, one.pid == 12) << one.pid;
}

TEST(ProcessScan, finds_children_but_not_grandchildren) {
  const Family family;
  ProcessScan scan;
  scan.open();

  const auto children = scan.children();

  EXPECT_TRUE(children.is_all);
  EXPECT_TRUE(is_among(children, family.child()));
  EXPECT_FALSE(is_among(children, family.grandchild()));
}

TEST(ProcessScan, finds_children_that_started_after_it_was_opened) {
  ProcessScan scan;
  scan.open();
  const Family family;

  EXPECT_TRUE(is_among(scan.children(), family.child()));
}

// The list is not open, as on kernels that have none.
TEST(ProcessScan, finds_children_without_the_list_of_the_kernel) {
  const Family family;
  ProcessScan scan;

  const auto children = scan.children();

  EXPECT_TRUE(is_among(children, family.child()));
  EXPECT_FALSE(is_among(children, family.grandchild()));
}

TEST(ProcessScan, marks_the_descendants_of_this_process) {
  const Family family;
  ProcessScan scan;

  const auto all = scan.all();

  std::vector<pid_t> ours;
  for (std::size_t i = 0; i < all.count; ++i) {
    if (all.first[i].is_ours) ours.push_back(all.first[i].pid);
  }
  auto expected = std::vector<pid_t>{family.child(), family.grandchild()};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(ours, expected);
}

TEST(ProcessScan, finds_a_process_whose_first_thread_has_ended) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([] {
      for (;;) ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);
  }
  const auto stat = "/proc/" + std::to_string(child) + "/stat";
  while (stat_fields(text_of(stat).c_str())->state != 'Z') ::usleep(1000);
  ProcessScan scan;

  const auto all = scan.all();

  EXPECT_TRUE(std::any_of(all.first, all.first + all.count,
                          [&](const auto& p) { return p.pid == child && p.is_ours; }));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(ProcessScan, a_signal_reaches_the_process_that_was_found) {
  const Family family;
  ProcessScan scan;
  const auto all = scan.all();
  const auto* found = std::find_if(all.first, all.first + all.count, [&](const auto& p) {
    return p.pid == family.child();
  });

  EXPECT_EQ(scan.send(*found, SIGSTOP), 0);

  int status = 0;
  ASSERT_EQ(::waitpid(family.child(), &status, WUNTRACED), family.child());
  EXPECT_TRUE(WIFSTOPPED(status));
}

TEST(ProcessScan, a_signal_does_not_reach_a_later_process_with_the_same_pid) {
  const Family family;
  ProcessScan scan;
  const auto all = scan.all();
  auto earlier = *std::find_if(all.first, all.first + all.count,
                               [&](const auto& p) { return p.pid == family.child(); });
  --earlier.started_ticks;

  EXPECT_EQ(scan.send(earlier, SIGKILL), ESRCH);

  EXPECT_EQ(::waitpid(family.child(), nullptr, WNOHANG), 0);
}

}  // namespace
}  // namespace dlock
