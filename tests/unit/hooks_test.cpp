// Which hook runs for which outcome, what it is told, and how a hook that takes too long
// is stopped.

#include "cli/run/hooks.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "tests/unit/temporary_directory.hpp"
#include "util/process.hpp"

namespace dlock {
namespace {

const AfterHook* hook_after(RunOutcome outcome, std::optional<int> exit_code = {}) {
  RunResult result;
  result.outcome = outcome;
  result.exit_code = exit_code;
  return hook_for(result);
}

TEST(HookChoice, is_on_busy_if_the_lock_was_not_obtained) {
  EXPECT_EQ(hook_after(RunOutcome::busy, 75), &busy_hook);
  EXPECT_EQ(hook_after(RunOutcome::busy, 0), &busy_hook);
  EXPECT_EQ(hook_after(RunOutcome::superseded, 75), &busy_hook);
}

TEST(HookChoice, is_none_for_a_deduplicated_or_interrupted_run) {
  EXPECT_EQ(hook_after(RunOutcome::deduplicated, 0), nullptr);
  EXPECT_EQ(hook_after(RunOutcome::interrupted), nullptr);
}

TEST(HookVariables, are_empty_where_they_do_not_apply) {
  const std::vector<std::string> expected{
      "DLOCK_NAME=job", "DLOCK_OUTCOME=error", "DLOCK_REASON=",     "DLOCK_EXIT_CODE=",
      "DLOCK_SIGNAL=",  "DLOCK_RAN_MS=",       "DLOCK_HOLDER_HOST="};

  EXPECT_EQ(hook_variables("job", RunResult{}), expected);
}

std::string told_host(const std::string& host) {
  RunResult result;
  result.holder.emplace();
  result.holder->host = host;
  const auto last = hook_variables("job", result).back();
  return last.substr(last.find('=') + 1);
}

TEST(HookVariables, have_the_holders_host_in_a_form_that_no_program_misunderstands) {
  for (const std::string host : {"web-1.example.org", "10.0.0.1", "fe80::1", "a_b", ""}) {
    EXPECT_EQ(told_host(host), host);
  }
  EXPECT_EQ(told_host("-oProxyCommand=touch /tmp/x"), "_oProxyCommand_touch__tmp_x");
  EXPECT_EQ(told_host("a\nb\x1b[2J"), "a_b__2J");
  EXPECT_EQ(told_host("$(id)`id`;'\""), "__id__id____");
  EXPECT_EQ(told_host("b\xC3\xBC"), "b__");
  EXPECT_EQ(told_host(std::string(100'000, 'x')).size(), 255u);
}

pid_t process_named_in(const std::string& file) {
  pid_t pid = 0;
  std::ifstream(file) >> pid;
  return pid;
}

// A process does not end at once even after SIGKILL.
bool ends_soon(pid_t pid) {
  const auto until = later(Clock::now(), milliseconds(5000));
  while (Clock::now() < until) {
    if (has_ended(pid)) return pid != 0;
    ::usleep(1000);
  }
  return false;
}

class Hooks : public ::testing::Test {
 protected:
  // Signals are held only during these tests.
  ~Hooks() override { ::sigprocmask(SIG_SETMASK, &held_.inherited().mask, nullptr); }

  HookEnd end_of(const std::string& line) {
    HookPlan plan;
    plan.line = line;
    plan.environment = {"PATH=/usr/bin:/bin"};
    plan.limit = limit_;
    plan.kill_after = kill_after_;
    return run_hook(plan, held_);
  }

  milliseconds limit_{60'000};
  milliseconds kill_after_{5'000};

 private:
  HeldSignals held_;
};

TEST_F(Hooks, an_earlier_signal_does_not_stop_a_hook) {
  ::raise(SIGTERM);

  const auto end = end_of("sleep 0.1");

  EXPECT_EQ(end.signal, std::nullopt);
  EXPECT_EQ(end.trouble, "");
}

TEST_F(Hooks, a_hook_that_takes_too_long_is_stopped) {
  limit_ = milliseconds(100);

  EXPECT_EQ(end_of("exec sleep 600").trouble,
            "was killed because it took longer than 100ms");
}

TEST_F(Hooks, a_hook_that_ignores_sigterm_is_killed_with_all_its_processes) {
  const TemporaryDirectory root;
  const auto file = root.file("pid");
  limit_ = milliseconds(200);
  kill_after_ = milliseconds(100);

  const auto end =
      end_of("trap '' TERM; sleep 600 & echo $! > " + file + "; wait; sleep 600");

  EXPECT_EQ(end.trouble, "was killed because it took longer than 200ms");
  EXPECT_TRUE(ends_soon(process_named_in(file)));
}

TEST_F(Hooks, processes_that_outlive_a_stopped_hook_are_killed) {
  const TemporaryDirectory root;
  const auto file = root.file("pid");
  limit_ = milliseconds(200);
  kill_after_ = milliseconds(100);

  end_of("(trap '' TERM; exec sleep 600) & echo $! > " + file + "; wait");

  EXPECT_TRUE(ends_soon(process_named_in(file)));
}

}  // namespace
}  // namespace dlock
