// The message about a lost lock: why it was lost, and what happened to the command.

#include "cli/loss_text.hpp"

#include <gtest/gtest.h>

namespace dlock {
namespace {

const std::optional<Silence> no_silence;

TEST(LossText, names_a_silent_server_and_how_long_it_has_been_silent) {
  EXPECT_EQ(loss_text(Loss::unconfirmed, CommandFate::ended_in_time, true,
                      Silence{"db:6379", milliseconds(13'204)}),
            "lost the lock: db:6379 has not replied for 13s, so the command was ended "
            "before the lease expired");
  EXPECT_EQ(loss_text(Loss::unconfirmed, CommandFate::was_ended, true,
                      Silence{"db:6379", milliseconds(620)}),
            "lost the lock: db:6379 has not replied for 620ms; the command was ended");
}

TEST(LossText, does_not_blame_a_server_that_replied) {
  EXPECT_EQ(
      loss_text(Loss::unconfirmed, CommandFate::may_have_outlived, true, no_silence),
      "lost the lock: its lease was not renewed in time; the lease may have expired "
      "before the command ended");
}

TEST(LossText, suggests_why_the_store_no_longer_knows_the_lock) {
  EXPECT_EQ(loss_text(Loss::gone, CommandFate::was_ended, true, no_silence),
            "lost the lock: the server no longer knows it (restarted or flushed?); the "
            "command was ended");
  EXPECT_EQ(loss_text(Loss::gone, CommandFate::had_ended, false, no_silence),
            "lost the lock before the command ended: the store no longer knows it (files "
            "removed or replaced?)");
}

TEST(LossText, names_the_user_who_took_the_lock_if_known) {
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

TEST(LossText, says_whether_the_lock_was_granted_to_another_or_broken) {
  EXPECT_EQ(loss_text(Loss::taken_over, CommandFate::was_ended, true, no_silence),
            "lost the lock: another holder was granted it; the command was ended");
  EXPECT_EQ(loss_text(Loss::broken, CommandFate::was_ended, false, no_silence),
            "lost the lock: it was taken with dlock break; the command was ended");
}

TEST(ServerIn, is_the_host_and_port_of_a_url) {
  EXPECT_EQ(server_in("redis://db:6379"), "db:6379");
  EXPECT_EQ(server_in("rediss://alice@db:6379/3"), "db:6379");
  EXPECT_EQ(server_in("redis://[::1]:6379/0"), "[::1]:6379");
}

TEST(ServerIn, is_the_path_of_a_url_without_a_host) {
  EXPECT_EQ(server_in("redis+unix:/run/redis.sock"), "/run/redis.sock");
}

}  // namespace
}  // namespace dlock
