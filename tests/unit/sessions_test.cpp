// What a session says of the process that has it.

#include "store/local/sessions.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace dlock::local {
namespace {

// Whichever way the kernel was asked: the number is compared with that of other
// processes, and tools print it.
TEST(OwnPidNamespace, is_the_one_that_proc_shows) {
  struct stat status {};
  ASSERT_EQ(::stat("/proc/self/ns/pid", &status), 0);

  EXPECT_EQ(own_pid_namespace(), status.st_ino);
}

}  // namespace
}  // namespace dlock::local
