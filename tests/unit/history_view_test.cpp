// The runs of a lock as `history` shows them.

#include "cli/show/history_view.hpp"

#include <gtest/gtest.h>

namespace dlock {
namespace {

using namespace std::chrono_literals;

constexpr WallTime viewed_at = 1'700'000'000s;

RunInfo run_with(std::optional<int> exit_code, milliseconds duration) {
  RunInfo run;
  run.started = viewed_at - 1h;
  run.ended = run.started + duration;
  run.duration = duration;
  run.exit_code = exit_code;
  run.host = "web1";
  run.outcome = "ran";
  return run;
}

RunInfo running() {
  auto run = run_with({}, 192s);
  run.ended.reset();
  run.outcome = "running";
  return run;
}

RunInfo vanished() {
  auto run = running();
  run.duration.reset();
  run.outcome = "vanished";
  return run;
}

std::string text_of(const std::vector<RunInfo>& runs, const HistoryFormat& format,
                    Names names = Names::left_out) {
  std::vector<RunOfLock> of_lock;
  for (const auto& run : runs) of_lock.push_back({"job", run});
  return history_text(of_lock, viewed_at, format, names);
}

const HistoryFormat pipe{};
const HistoryFormat terminal{false, 80, true};

TEST(HistoryText, is_empty_without_runs) { EXPECT_EQ(text_of({}, terminal), ""); }

TEST(HistoryText, has_a_heading_and_a_line_for_each_run) {
  auto killed = run_with({}, 1500ms);
  killed.signal = "KILL";
  killed.host = "a-longer-name";
  auto late = run_with(124, 10s);
  late.outcome = "timeout";

  EXPECT_EQ(
      text_of({running(), run_with(0, 2000ms), killed, late, vanished()}, pipe),
      "STARTED               AGO   TOOK   HOST           OUTCOME\n"
      "2023-11-14T21:13:20Z  1h0m  3m12s  web1           running\n"
      "2023-11-14T21:13:20Z  1h0m  2.0s   web1           exit 0\n"
      "2023-11-14T21:13:20Z  1h0m  1.5s   a-longer-name  killed by SIGKILL\n"
      "2023-11-14T21:13:20Z  1h0m  10s    web1           timeout, exit 124\n"
      "2023-11-14T21:13:20Z  1h0m  -      web1           vanished (end not recorded)\n");
}

TEST(HistoryText, has_the_calendar_periods_of_runs_if_any_has_one) {
  auto daily = run_with(0, 2000ms);
  daily.period = "day@Europe/Berlin 2023-11-13T23:00:00.000Z";

  EXPECT_EQ(text_of({daily, run_with(0, 2000ms)}, pipe),
            "STARTED               AGO   TOOK  HOST  PERIOD             OUTCOME\n"
            "2023-11-14T21:13:20Z  1h0m  2.0s  web1  day@Europe/Berlin  exit 0\n"
            "2023-11-14T21:13:20Z  1h0m  2.0s  web1                     exit 0\n");
}

TEST(HistoryText, has_bars_that_compare_durations_on_a_terminal) {
  EXPECT_EQ(text_of({run_with(0, 10s), run_with(0, 5500ms), run_with(0, 1ms)}, terminal),
            "STARTED               AGO   TOOK              HOST  OUTCOME\n"
            "2023-11-14T21:13:20Z  1h0m  10s   ██████████  web1  exit 0\n"
            "2023-11-14T21:13:20Z  1h0m  5.5s  █████▌      web1  exit 0\n"
            "2023-11-14T21:13:20Z  1h0m  1ms   ▌           web1  exit 0\n");
}

TEST(HistoryText, bars_are_ascii_if_blocks_cannot_be_shown) {
  auto plain = terminal;
  plain.blocks = false;

  const auto text = text_of({run_with(0, 10s), run_with(0, 1ms)}, plain);

  EXPECT_NE(text.find(" ########## "), std::string::npos) << text;
  EXPECT_NE(text.find(" #  "), std::string::npos) << text;
}

TEST(HistoryText, a_terminal_that_is_too_narrow_gets_no_bars) {
  auto narrow = terminal;
  narrow.columns = 50;

  const auto text = text_of({run_with(0, 10s)}, narrow);

  EXPECT_EQ(text, text_of({run_with(0, 10s)}, pipe));
}

TEST(HistoryText, lock_and_user_have_columns_if_names_are_shown) {
  auto run = run_with(0, 2000ms);
  run.user = "root";

  EXPECT_EQ(text_of({run}, pipe, Names::shown),
            "STARTED               LOCK  AGO   TOOK  HOST  USER  OUTCOME\n"
            "2023-11-14T21:13:20Z  job   1h0m  2.0s  web1  root  exit 0\n");
}

TEST(HistoryText, a_lease_by_hand_is_shown_as_one) {
  auto over = run_with({}, 2000ms);
  over.outcome = "by hand";
  auto going_on = running();
  going_on.outcome = "by hand";

  EXPECT_EQ(text_of({going_on, over}, pipe),
            "STARTED               AGO   TOOK   HOST  OUTCOME\n"
            "2023-11-14T21:13:20Z  1h0m  3m12s  web1  by hand, still held\n"
            "2023-11-14T21:13:20Z  1h0m  2.0s   web1  by hand\n");
}

LockInfo never_run(const char* name) {
  LockInfo lock;
  lock.lock.name = name;
  return lock;
}

LockInfo with_success() {
  auto lock = never_run("job");
  lock.now = viewed_at;
  lock.last_success = run_with(0, 2000ms);
  return lock;
}

TEST(Success, counts_by_the_end_of_the_run) {
  EXPECT_FALSE(success_within(with_success(), 1h - 2s).is_within);
  EXPECT_TRUE(success_within(with_success(), 1h - 1s).is_within);
  EXPECT_FALSE(success_within({}, 1h).is_within);
}

TEST(Success, is_described_in_a_sentence) {
  EXPECT_EQ(plugin_line(success_within(never_run("a|b"), 1h), "redis://db"),
            "DLOCK CRITICAL - a\\x7cb never succeeded in redis://db | age=U;;3600;0");
  EXPECT_EQ(text_of(success_within(never_run("job"), 1h), "redis://db"),
            "job never succeeded in redis://db");
  EXPECT_EQ(text_of(success_within(with_success(), 1h), "redis://db"),
            "job succeeded 59m58s ago, at 2023-11-14T21:13:22.000Z on web1");
  EXPECT_EQ(text_of(success_within(with_success(), 1min), "redis://db"),
            "job last succeeded 59m58s ago, at 2023-11-14T21:13:22.000Z on web1, "
            "not within 1m0s in redis://db");
}

TEST(HistoryText, color_distinguishes_failures_successes_and_runs_in_progress) {
  auto colored = pipe;
  colored.color = true;

  const auto text =
      text_of({running(), run_with(0, 1s), run_with(3, 1s), vanished()}, colored);

  EXPECT_NE(text.find("\x1b[33mrunning\x1b[0m\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\x1b[32mexit 0\x1b[0m\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\x1b[31mexit 3\x1b[0m\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\x1b[31mvanished (end not recorded)\x1b[0m\n"), std::string::npos)
      << text;
}

TEST(HistoryText, color_does_not_count_as_width) {
  auto colored = terminal;
  colored.color = true;
  colored.columns = 62;

  EXPECT_NE(text_of({run_with(0, 10s)}, colored).find("█"), std::string::npos);
}

TEST(HistoryText, a_start_in_the_future_is_shown_as_now) {
  auto run = run_with(0, 1s);
  run.started = viewed_at + 1h;

  EXPECT_NE(text_of({run}, pipe).find("  0ms  "), std::string::npos);
}

TEST(HistoryText, the_name_of_a_host_is_escaped) {
  auto run = run_with(0, 1s);
  run.host = "web\x1b[2J";

  EXPECT_EQ(text_of({run}, pipe).find('\x1b'), std::string::npos);
}

TEST(HistoryText, narrow_output_omits_the_start_and_shortens_hosts) {
  HistoryFormat narrow;
  narrow.columns = 30;

  EXPECT_EQ(text_of({run_with(0, 2000ms)}, narrow),
            "AGO   TOOK  HOST  OUTCOME\n1h0m  2.0s  web1  exit 0\n");
  narrow.columns = 26;
  auto elsewhere = run_with(0, 2000ms);
  elsewhere.host = "a-very-long-name";
  EXPECT_EQ(text_of({elsewhere}, narrow),
            "AGO   TOOK  HOST      OUTC\n1h0m  2.0s  a-ver...  exit\n");
}

}  // namespace
}  // namespace dlock
