// Exit codes: their numbers, and which failure leads to which code.

#include <gtest/gtest.h>

#include <cerrno>

#include "cli/args/verb_table.hpp"
#include "util/failure.hpp"

namespace dlock {
namespace {

using Kind = Failure::Kind;

TEST(ExitStatuses, match_the_manual) {
  EXPECT_EQ(code_of(ExitStatus::success), 0);
  EXPECT_EQ(code_of(ExitStatus::not_held), 1);
  EXPECT_EQ(code_of(ExitStatus::usage), 64);
  EXPECT_EQ(code_of(ExitStatus::unavailable), 69);
  EXPECT_EQ(code_of(ExitStatus::bug), 70);
  EXPECT_EQ(code_of(ExitStatus::not_obtained), 75);
  EXPECT_EQ(code_of(ExitStatus::lost), 76);
  EXPECT_EQ(code_of(ExitStatus::permission), 77);
  EXPECT_EQ(code_of(ExitStatus::misconfigured), 78);
  EXPECT_EQ(code_of(ExitStatus::timed_out), 124);
  EXPECT_EQ(code_of(ExitStatus::no_resources), 125);
  EXPECT_EQ(code_of(ExitStatus::not_executable), 126);
  EXPECT_EQ(code_of(ExitStatus::not_found), 127);
}

TEST(StatusOfFailure, a_store_that_cannot_be_reached_is_unavailable) {
  EXPECT_EQ(status_of(Kind::unreachable), ExitStatus::unavailable);
}

TEST(StatusOfFailure, a_rejection_by_the_store_is_a_lack_of_permission) {
  EXPECT_EQ(status_of(Kind::rejected), ExitStatus::permission);
}

TEST(StatusOfFailure, misconfigured_and_unsupported_have_the_same_code) {
  EXPECT_EQ(status_of(Kind::misconfigured), ExitStatus::misconfigured);
  EXPECT_EQ(status_of(Kind::unsupported), ExitStatus::misconfigured);
}

TEST(StatusOfFailure, exhaustion_is_a_lack_of_resources) {
  EXPECT_EQ(status_of(Kind::exhausted), ExitStatus::no_resources);
}

TEST(FailureOfErrno, a_permission_error_is_rejected) {
  EXPECT_EQ(failure_of(EACCES, "x").kind(), Kind::rejected);
  EXPECT_EQ(failure_of(EPERM, "x").kind(), Kind::rejected);
}

TEST(FailureOfErrno, a_full_disk_counts_as_unreachable) {
  EXPECT_EQ(failure_of(ENOSPC, "x").kind(), Kind::unreachable);
  EXPECT_EQ(failure_of(EDQUOT, "x").kind(), Kind::unreachable);
}

TEST(FailureOfErrno, a_lack_of_descriptors_or_memory_is_exhaustion) {
  EXPECT_EQ(failure_of(EMFILE, "x").kind(), Kind::exhausted);
  EXPECT_EQ(failure_of(ENFILE, "x").kind(), Kind::exhausted);
  EXPECT_EQ(failure_of(ENOMEM, "x").kind(), Kind::exhausted);
}

TEST(FailureOfErrno, a_permanent_error_is_misconfigured) {
  EXPECT_EQ(failure_of(ENOENT, "x").kind(), Kind::misconfigured);
  EXPECT_EQ(failure_of(EROFS, "x").kind(), Kind::misconfigured);
}

TEST(FailureOfErrno, says_what_failed_and_why) {
  EXPECT_STREQ(failure_of(EACCES, "cannot open /x").what(),
               "cannot open /x: Permission denied");
}

}  // namespace
}  // namespace dlock
