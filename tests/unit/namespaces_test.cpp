// Which namespaces this process is in.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "store/local/sessions.hpp"

namespace dlock::local {
namespace {

// However the kernel is asked: the numbers are compared with those of other processes,
// and tools print them.
TEST(OwnNamespaces, match_those_in_proc) {
  struct stat pids {};
  struct stat time {};
  ASSERT_EQ(::stat("/proc/self/ns/pid", &pids), 0);
  ::stat("/proc/self/ns/time", &time);  // a kernel may have no time namespaces

  EXPECT_EQ(own_namespaces().pids, pids.st_ino);
  EXPECT_EQ(own_namespaces().time, time.st_ino);
}

}  // namespace
}  // namespace dlock::local
