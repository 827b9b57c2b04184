// Which namespaces this process is in.

#include "store/local/namespaces.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace dlock::local {
namespace {

// Whichever way the kernel was asked: the number is compared with that of other
// processes, and tools print it.
TEST(OwnNamespaces, are_those_that_proc_shows) {
  struct stat pids {};
  struct stat time {};
  ASSERT_EQ(::stat("/proc/self/ns/pid", &pids), 0);
  ::stat("/proc/self/ns/time", &time);  // the kernel may have none

  EXPECT_EQ(own_namespaces().pids, pids.st_ino);
  EXPECT_EQ(own_namespaces().time, time.st_ino);
}

}  // namespace
}  // namespace dlock::local
