// The message about a lost lock: why it was lost, and what happened to the command.

#include <gtest/gtest.h>

#include "cli/show/holder_text.hpp"

namespace dlock {
namespace {

const std::optional<FailedRenewals> none_failed;

TEST(LossText, says_why_the_last_renewal_failed_and_for_how_long_they_have_failed) {
  const std::string why = "db:6379 did not reply within 2s";
  EXPECT_EQ(
      loss_text(Loss::unconfirmed, CommandFate::ended_in_time, true,
                FailedRenewals{why, milliseconds(13'204), milliseconds(812)}),
      "lost the lock: its lease could not be renewed for 13s (db:6379 did not reply "
      "within 2s), so the command was stopped 812ms before the lease expired");
  EXPECT_EQ(loss_text(Loss::unconfirmed, CommandFate::was_ended, true,
                      FailedRenewals{why, milliseconds(620)}),
            "lost the lock: its lease could not be renewed for 620ms (db:6379 did not "
            "reply within 2s); the command was stopped");
}

TEST(LossText, does_not_report_failed_renewals_if_there_were_none) {
  EXPECT_EQ(
      loss_text(Loss::unconfirmed, CommandFate::may_have_outlived, true, none_failed),
      "lost the lock: its lease was not renewed in time; the lease may have expired "
      "before the command ended");
}

TEST(LossText, suggests_why_the_store_no_longer_knows_the_lock) {
  EXPECT_EQ(loss_text(Loss::gone, CommandFate::was_ended, true, none_failed),
            "lost the lock: the server no longer knows it (restarted or flushed?); the "
            "command was stopped");
  EXPECT_EQ(loss_text(Loss::gone, CommandFate::had_ended, false, none_failed),
            "lost the lock before the command ended: the store no longer knows it (files "
            "removed or replaced?)");
}

TEST(LossText, names_the_user_who_took_the_lock_if_known) {
  const auto text = [](const Taker& taker) {
    return loss_text(Loss::broken, CommandFate::was_ended, true, none_failed, taker);
  };

  EXPECT_EQ(text({"root", "web2", false}),
            "lost the lock: root@web2 took the lock with dlock break; the command was "
            "stopped");
  EXPECT_EQ(text({"root", "web2", true}),
            "lost the lock: root@web2 took the lock with --replace; the command was "
            "stopped");
  EXPECT_EQ(text({"ro\x1b[2Jot", "web\n2", false}),
            "lost the lock: ro\\x1b[2Jot@web\\n2 took the lock with dlock break; the "
            "command was stopped");
}

TEST(LossText, says_whether_the_lock_was_granted_to_another_or_broken) {
  EXPECT_EQ(loss_text(Loss::taken_over, CommandFate::was_ended, true, none_failed),
            "lost the lock: another holder got it; the command was stopped");
  EXPECT_EQ(loss_text(Loss::broken, CommandFate::was_ended, false, none_failed),
            "lost the lock: it was taken with dlock break; the command was stopped");
}

}  // namespace
}  // namespace dlock
