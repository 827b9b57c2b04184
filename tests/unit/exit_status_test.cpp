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

TEST(FailureOfErrno, is_of_the_kind_that_says_what_can_be_done) {
  for (const int error : {EACCES, EPERM}) {
    EXPECT_EQ(failure_of(error, "x").kind(), Kind::rejected);
  }
  for (const int full : {ENOSPC, EDQUOT}) {
    EXPECT_EQ(failure_of(full, "x").kind(), Kind::unreachable);
  }
  for (const int lack : {EMFILE, ENFILE, ENOMEM}) {
    EXPECT_EQ(failure_of(lack, "x").kind(), Kind::exhausted);
  }
  for (const int permanent : {ENOENT, EROFS}) {
    EXPECT_EQ(failure_of(permanent, "x").kind(), Kind::misconfigured);
  }
}

TEST(FailureOfErrno, says_what_failed_and_why) {
  EXPECT_STREQ(failure_of(EACCES, "cannot open /x").what(),
               "cannot open /x: Permission denied");
}

}  // namespace
}  // namespace dlock
