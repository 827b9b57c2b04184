// What is said of a lock that was lost: why, and what became of the command.

#include "cli/loss_text.hpp"

#include <gtest/gtest.h>

namespace dlock {
namespace {

const std::optional<Silence> no_silence;

TEST(LossText, of_a_server_that_does_not_answer_says_for_how_long) {
  EXPECT_EQ(loss_text(Loss::unconfirmed, CommandFate::ended_in_time, true,
                      Silence{"db:6379", milliseconds(13'204)}),
            "lost the lock: db:6379 has not replied for 13s, so the command was ended "
            "before the lease expired");
  EXPECT_EQ(loss_text(Loss::unconfirmed, CommandFate::was_ended, true,
                      Silence{"db:6379", milliseconds(620)}),
            "lost the lock: db:6379 has not replied for 620ms; the command was ended");
}

TEST(LossText, of_a_lease_that_was_not_renewed_does_not_blame_the_server) {
  EXPECT_EQ(
      loss_text(Loss::unconfirmed, CommandFate::may_have_outlived, true, no_silence),
      "lost the lock: its lease was not renewed in time; the lease may have expired "
      "before the command ended");
}

TEST(LossText, of_a_lock_that_is_gone_says_what_may_have_happened) {
  EXPECT_EQ(loss_text(Loss::gone, CommandFate::was_ended, true, no_silence),
            "lost the lock: the server no longer knows it (restarted or flushed?); the "
            "command was ended");
  EXPECT_EQ(loss_text(Loss::gone, CommandFate::had_ended, false, no_silence),
            "lost the lock before the command ended: the store no longer knows it (files "
            "removed or replaced?)");
}

TEST(LossText, of_a_lock_that_was_taken_names_who_did_if_that_is_known) {
  const auto text = [](const Taker& taker) {
    return loss_text(Loss::broken, CommandFate::was_ended, true, no_silence, taker);
  };

  EXPECT_EQ(text({"root", "web2", false}),
            "lost the lock: root@web2 took the lock with dlock break; the command was "
            "ended");
  EXPECT_EQ(text({"root", "web2", true}),
            "lost the lock: root@web2 took the lock with --replace; the command was "
            "ended");
  EXPECT_EQ(text({"ro\x1b[2Jot", "web\n2", false}),
            "lost the lock: ro\\x1b[2Jot@web\\n2 took the lock with dlock break; the "
            "command was ended");
}

TEST(LossText, of_a_lock_that_others_have_says_so) {
  EXPECT_EQ(loss_text(Loss::taken_over, CommandFate::was_ended, true, no_silence),
            "lost the lock: another holder was granted it; the command was ended");
  EXPECT_EQ(loss_text(Loss::broken, CommandFate::was_ended, false, no_silence),
            "lost the lock: it was taken with dlock break; the command was ended");
}

TEST(ServerIn, a_url_is_its_host_and_port) {
  EXPECT_EQ(server_in("redis://db:6379"), "db:6379");
  EXPECT_EQ(server_in("rediss://alice@db:6379/3"), "db:6379");
  EXPECT_EQ(server_in("redis://[::1]:6379/0"), "[::1]:6379");
}

TEST(ServerIn, a_url_without_a_host_is_its_path) {
  EXPECT_EQ(server_in("redis+unix:/run/redis.sock"), "/run/redis.sock");
}

}  // namespace
}  // namespace dlock
