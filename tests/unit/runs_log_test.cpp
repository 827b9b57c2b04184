// The log of runs: its lines are read as they were written, garbage is skipped, and its
// size is bounded.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "lock/history.hpp"
#include "store/local/text_files.hpp"
#include "tests/unit/temporary_directory.hpp"
#include "util/json.hpp"

namespace dlock::local {
namespace {

using namespace record;
using rules::Holder;
using std::chrono::seconds;

const LockName job{"dlock", "job"};

RunInfo run_with_fence(std::uint64_t fence) {
  RunInfo run;
  run.fence.number = fence;
  run.started = seconds(1'700'000'000);
  run.ended = seconds(1'700'000'003);
  run.duration = milliseconds(3000);
  run.exit_code = 0;
  run.host = "web1";
  run.user = "33";
  run.outcome = "ran";
  run.counts = true;
  return run;
}

Holder holder_with_fence(std::uint64_t fence) {
  Holder holder;
  holder.fence.number = fence;
  holder.since = seconds(1'700'000'000);
  holder.party.host = "web1";
  holder.party.pid = 12;
  holder.party.user = "33";
  holder.slot = 2;
  holder.label = "blue";
  holder.argv = {"make", "all"};
  holder.counts = true;
  return holder;
}

std::string end_of(const LockName& lock, std::uint64_t fence) {
  return end_line(lock, run_with_fence(fence)) + "\n";
}
std::string start_of(const LockName& lock, const Holder& holder, pid_t command = 77) {
  return start_line(lock, holder) + std::to_string(command) + start_line_time + "5000" +
         start_line_end;
}
std::string start_of(const LockName& lock, std::uint64_t fence) {
  return start_of(lock, holder_with_fence(fence));
}

TEST(RunsLogLines, a_start_is_one_line_of_json) {
  EXPECT_EQ(start_of(job, 7),
            R"({"event":"start","namespace":"dlock","name":"job","fence":7,"slot":2,)"
            R"("mode":"exclusive","started":"2023-11-14T22:13:20.000Z","host":"web1",)"
            R"("pid":12,"uid":33,"label":"blue","counts":true,)"
            R"("command":["make","all"],"command_pid":77,"command_boot_ms":5000})"
            "\n");
}

TEST(RunsLogLines, an_end_is_one_line_of_json) {
  EXPECT_EQ(end_line(job, run_with_fence(7)),
            R"({"event":"end","namespace":"dlock","name":"job","fence":7,)"
            R"("started":"2023-11-14T22:13:20.000Z","ended":"2023-11-14T22:13:23.000Z",)"
            R"("duration_ms":3000,"exit_code":0,"signal":null,"host":"web1",)"
            R"("uid":33,"outcome":"ran","counts":true})");
}

TEST(RunsHistory, a_run_keeps_the_calendar_period_of_its_start) {
  auto holder = holder_with_fence(7);
  holder.period = "day@UTC 2023-11-14T00:00:00.000Z";
  const auto log = start_of(job, holder) + end_of(job, 7);

  std::vector<RunInfo> runs{run_with_fence(7), run_with_fence(8)};
  add_descriptions(runs, log, job);

  EXPECT_EQ(runs[0].period, holder.period);
  EXPECT_EQ(runs[0].label, "blue");
  EXPECT_EQ(runs[1].period, "");
  // After a reboot, the log is all that there is.
  EXPECT_EQ(history_of(log).runs.at(job).at(0).period, holder.period);
  EXPECT_EQ(history_of(start_of(job, holder)).runs.at(job).at(0).period, holder.period);
}

TEST(RunsLogLines, text_with_line_breaks_is_still_one_line) {
  auto holder = holder_with_fence(7);
  holder.argv = {"echo", "a\nb"};

  const auto line = start_of(job, holder);

  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

TEST(RunsLogLines, bytes_that_are_not_utf8_leave_the_line_valid_json) {
  auto holder = holder_with_fence(7);
  holder.argv = {"echo", "\xFF"};

  EXPECT_TRUE(Json::accept(start_of(job, holder)));
}

TEST(RunsHistory, an_end_is_read_as_it_was_written) {
  auto run = run_with_fence(7);
  run.exit_code = 3;
  const auto history = history_of(end_line(job, run) + "\n");

  ASSERT_EQ(history.last_runs.count(job), 1u);
  const auto& read = history.last_runs.at(job);
  EXPECT_EQ(read.fence, run.fence);
  EXPECT_EQ(read.started, run.started);
  EXPECT_EQ(read.ended, run.ended);
  EXPECT_EQ(read.duration, run.duration);
  EXPECT_EQ(read.exit_code, run.exit_code);
  EXPECT_EQ(read.signal, std::nullopt);
  EXPECT_EQ(read.host, run.host);
  EXPECT_EQ(read.user, "33");
  EXPECT_EQ(read.outcome, run.outcome);
}

TEST(RunsHistory, an_end_by_a_signal_is_read_as_it_was_written) {
  auto run = run_with_fence(7);
  run.exit_code.reset();
  run.signal = "TERM";

  const auto read = history_of(end_line(job, run) + "\n").last_runs.at(job);

  EXPECT_EQ(read.exit_code, std::nullopt);
  EXPECT_EQ(read.signal, "TERM");
}

TEST(RunsHistory, a_start_without_an_end_is_a_run_that_vanished) {
  const auto read = history_of(start_of(job, 7)).last_runs.at(job);

  EXPECT_EQ(read.fence.number, 7u);
  EXPECT_EQ(read.started, seconds(1'700'000'000));
  EXPECT_EQ(read.outcome, "vanished");
  EXPECT_FALSE(read.ended);
}

TEST(RunsHistory, a_run_that_has_ended_is_not_running_whatever_its_line_says) {
  auto run = run_with_fence(8);
  run.outcome = "running";

  const auto read = history_of(end_line(job, run) + "\n").last_runs.at(job);

  EXPECT_EQ(read.outcome, "vanished");
}

TEST(RunsHistory, a_lease_by_hand_is_listed_but_is_not_the_last_run) {
  auto lease = run_with_fence(9);
  lease.exit_code.reset();
  lease.outcome = by_hand;
  const auto grant = grant_line(job, holder_with_fence(9)) + "\n";
  const auto cut_off = history_of(end_of(job, 7) + grant);
  const auto ended = history_of(end_of(job, 7) + grant + end_line(job, lease) + "\n");

  EXPECT_EQ(cut_off.last_runs.at(job).fence.number, 7u);
  ASSERT_EQ(cut_off.runs.at(job).size(), 2u);
  EXPECT_EQ(cut_off.runs.at(job)[1].outcome, by_hand);
  EXPECT_FALSE(cut_off.runs.at(job)[1].ended);
  EXPECT_EQ(ended.last_runs.at(job).fence.number, 7u);
  ASSERT_EQ(ended.runs.at(job).size(), 2u);
  EXPECT_EQ(ended.runs.at(job)[1].ended, lease.ended);
}

TEST(RunsHistory, a_detached_grant_is_not_a_run_but_its_fence_counts) {
  const auto history =
      history_of(end_of(job, 7) + grant_line(job, holder_with_fence(9)) + "\n");

  EXPECT_EQ(history.last_runs.at(job).fence.number, 7u);
  EXPECT_EQ(history.greatest_fence.number, 9u);
}

TEST(RunsHistory, an_end_replaces_its_start) {
  const auto history = history_of(start_of(job, 7) + end_of(job, 7));

  EXPECT_EQ(history.last_runs.at(job).outcome, "ran");
}

TEST(RunsHistory, a_line_with_an_implausible_fence_is_skipped) {
  const WallTime now{1'700'000'000'000'000};
  const std::uint64_t month_ahead = 1'703'000'000'000'000;
  const auto usual =
      end_of(job, 1'699'000'000'000'000) + end_of(job, 1'699'000'000'000'001);
  for (const auto fence : {month_ahead, std::uint64_t{9'007'199'254'740'989}}) {
    const auto log = usual + end_of(job, fence);

    EXPECT_EQ(history_of(log, now).greatest_fence.number, 1'699'000'000'000'001u)
        << fence;
    EXPECT_EQ(history_of(log, now).last_runs.at(job).fence.number,
              1'699'000'000'000'001u);
    EXPECT_EQ(fence_far_ahead(log, now), Fence{fence});
  }
  EXPECT_FALSE(fence_far_ahead(usual, now));
}

TEST(RunsHistory, fences_of_a_clock_that_was_far_ahead_are_kept_if_most_lines_have_them) {
  const WallTime now{1'700'000'000'000'000};
  const auto log =
      end_of(job, 1'800'000'000'000'000) + end_of(job, 1'800'000'000'000'001);

  EXPECT_EQ(history_of(log, now).greatest_fence.number, 1'800'000'000'000'001u);
  EXPECT_TRUE(fence_far_ahead(log, now));
  // But nothing that no clock explains.
  const auto lies =
      end_of(job, 9'007'199'254'740'989) + end_of(job, 9'007'199'254'740'989);
  EXPECT_EQ(history_of(lies, now).greatest_fence.number, 0u);
}

TEST(RunsHistory, the_last_run_is_the_one_with_the_greatest_fence) {
  const auto history = history_of(end_of(job, 7) + end_of(job, 9) + end_of(job, 8));

  EXPECT_EQ(history.last_runs.at(job).fence.number, 9u);
}

TEST(RunsHistory, each_lock_has_its_own_last_run) {
  const LockName same_name{"other", "job"};
  const LockName other_name{"dlock", "other"};

  const auto history =
      history_of(end_of(job, 7) + end_of(same_name, 8) + end_of(other_name, 9));

  EXPECT_EQ(history.last_runs.at(job).fence.number, 7u);
  EXPECT_EQ(history.last_runs.at(same_name).fence.number, 8u);
  EXPECT_EQ(history.last_runs.at(other_name).fence.number, 9u);
}

TEST(RunsHistory, the_runs_of_a_lock_include_those_of_slots_and_vanished_ones) {
  auto of_a_slot = run_with_fence(8);
  of_a_slot.counts = false;

  const auto history =
      history_of(end_of({"dlock", "other"}, 1) + end_of(job, 7) +
                 end_line(job, of_a_slot) + "\n" + end_of(job, 8) + start_of(job, 9));

  const auto& runs = history.runs.at(job);
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].fence.number, 7u);
  EXPECT_EQ(runs[1].fence.number, 8u);
  EXPECT_EQ(runs[2].fence.number, 9u);
  EXPECT_EQ(runs[2].outcome, "vanished");
}

TEST(RunsHistory, only_the_last_20_runs_of_a_lock_are_kept) {
  std::string log;
  for (std::uint64_t fence = 1; fence <= 30; ++fence) log += end_of(job, fence);

  const auto history = history_of(log);

  ASSERT_EQ(history.runs.at(job).size(), 20u);
  EXPECT_EQ(history.runs.at(job).front().fence.number, 11u);
}

TEST(RunsHistory, the_last_run_and_the_last_success_that_can_count_are_known) {
  auto failed = run_with_fence(8);
  failed.exit_code = 1;
  auto not_found = run_with_fence(9);
  not_found.exit_code = 127;
  auto of_a_slot = run_with_fence(10);
  of_a_slot.counts = false;
  std::string log = end_of(job, 7);
  for (const auto& run : {failed, not_found, of_a_slot}) log += end_line(job, run) + "\n";

  const auto history = history_of(log);

  EXPECT_EQ(history.last_runs.at(job).fence.number, 10u);
  EXPECT_EQ(history.past.at(job).last->fence.number, 8u);
  EXPECT_EQ(history.past.at(job).last_success->fence.number, 7u);
}

TEST(RunsHistory, a_vanished_run_does_not_count) {
  const auto history = history_of(end_of(job, 7) + start_of(job, 8));

  EXPECT_EQ(history.last_runs.at(job).outcome, "vanished");
  EXPECT_EQ(history.past.at(job).last->fence.number, 7u);
}

TEST(RunsHistory, a_vanished_run_does_not_count_if_its_start_says_so) {
  auto holder = holder_with_fence(7);
  holder.counts = false;

  EXPECT_TRUE(history_of(start_of(job, holder)).past.empty());
}

TEST(RunsHistory, a_command_that_never_started_does_not_count) {
  const auto holder = holder_with_fence(7);

  const auto history =
      history_of(start_of(job, holder) + end_line(job, never_started_run(holder)) + "\n");

  EXPECT_TRUE(history.past.empty());
}

TEST(RunsHistory, a_line_whose_field_counts_is_missing_or_invalid_does_not_count) {
  const auto history = history_of(
      R"({"event":"end","namespace":"dlock","name":"job","fence":7,"exit_code":0})"
      "\n"
      R"({"event":"end","namespace":"dlock","name":"job","fence":8,"exit_code":0,)"
      R"("counts":"yes"})"
      "\n");

  EXPECT_TRUE(history.past.empty());
}

TEST(RunsHistory, the_greatest_fence_is_that_of_the_starts_and_ends_of_all_locks) {
  const LockName other{"dlock", "other"};

  EXPECT_EQ(history_of(start_of(other, 12) + end_of(job, 7)).greatest_fence.number, 12u);
  EXPECT_EQ(history_of(start_of(job, 7) + end_of(other, 12)).greatest_fence.number, 12u);
}

TEST(RunsHistory, an_empty_log_is_an_empty_history) {
  const auto history = history_of("");

  EXPECT_EQ(history.greatest_fence.number, 0u);
  EXPECT_TRUE(history.last_runs.empty());
}

TEST(RunsHistory, a_truncated_line_is_skipped) {
  const auto whole = end_of(job, 7);
  const auto cut = end_of(job, 8);

  for (std::size_t size = 0; size < cut.size(); ++size) {
    const auto history = history_of(whole + cut.substr(0, size));
    EXPECT_EQ(history.greatest_fence.number, 7u) << size;
  }
}

TEST(RunsHistory, garbage_lines_are_skipped) {
  const std::string garbage =
      "\n\n{}\n[]\nnull\n7\n\"text\"\n{\"event\":\n\xFF\xFE\n" + std::string(3, '\0') +
      "\n" + R"({"event":"end","namespace":"dlock","name":"job"})" + "\n" +
      R"({"event":"end","namespace":"dlock","name":"job","fence":-1})" + "\n" +
      R"({"event":"end","namespace":"dlock","name":"job","fence":1.5e300})" + "\n" +
      R"({"event":"end","namespace":"dlock","name":"job","fence":"99"})" + "\n" +
      R"({"event":"end","namespace":"dlock","name":["job"],"fence":99})" + "\n" +
      R"({"event":"end","namespace":null,"name":"job","fence":99})" + "\n" +
      R"({"event":7,"namespace":"dlock","name":"job","fence":99})" + "\n" +
      std::string(1000, '[') + "\n";

  const auto history = history_of(garbage + end_of(job, 7) + garbage);

  EXPECT_EQ(history.greatest_fence.number, 7u);
  EXPECT_EQ(history.last_runs.size(), 1u);
}

TEST(RunsHistory, garbage_fields_are_read_as_missing) {
  const auto history = history_of(
      R"({"event":"end","namespace":"dlock","name":"job","fence":7,"started":[],)"
      R"("ended":"yesterday","duration_ms":"long","exit_code":{},"signal":9,"host":null,)"
      R"("outcome":1})"
      "\n");

  const auto& read = history.last_runs.at(job);
  EXPECT_FALSE(read.ended);
  EXPECT_FALSE(read.duration);
  EXPECT_FALSE(read.exit_code);
  EXPECT_FALSE(read.signal);
  EXPECT_EQ(read.host, "");
}

TEST(CommandOf, is_the_command_that_the_start_of_the_grant_names) {
  const auto log = start_of(job, holder_with_fence(7), 70) +
                   start_of(job, holder_with_fence(8), 80) + end_of(job, 8);

  EXPECT_EQ(command_of(log, job, Fence{7})->pid, 70);
  EXPECT_EQ(command_of(log, job, Fence{8})->pid, 80);
}

TEST(CommandOf, had_started_by_the_end_of_the_recorded_millisecond) {
  EXPECT_EQ(command_of(start_of(job, 7), job, Fence{7})->not_after,
            Clock::time_point(milliseconds(5001)));
}

TEST(CommandOf, is_unknown_if_the_start_has_no_time) {
  const auto line = start_line(job, holder_with_fence(7)) + "77" + start_line_end;

  EXPECT_FALSE(command_of(line, job, Fence{7}));
}

TEST(CommandOf, is_unknown_for_another_lock) {
  EXPECT_FALSE(command_of(start_of(job, 7), {"dlock", "other"}, Fence{7}));
  EXPECT_FALSE(command_of(start_of(job, 7), {"other", "job"}, Fence{7}));
}

TEST(CommandOf, is_unknown_for_a_grant_without_a_start) {
  EXPECT_FALSE(command_of("", job, Fence{7}));
  EXPECT_FALSE(command_of(end_of(job, 7), job, Fence{7}));
  EXPECT_FALSE(command_of(start_of(job, 17), job, Fence{7}));
}

TEST(CommandOf, is_unknown_if_the_start_is_truncated) {
  const auto line = start_of(job, 7);

  for (std::size_t size = 0; size < line.size(); ++size) {
    EXPECT_FALSE(command_of(line.substr(0, size), job, Fence{7})) << size;
  }
}

TEST(RunsShortened, a_short_log_does_not_change) {
  const auto log = start_of(job, 7) + end_of(job, 7) + start_of(job, 8);

  EXPECT_EQ(shortened(log, 1'000'000), log);
}

TEST(RunsShortened, the_newest_lines_are_kept_in_their_order) {
  const auto last_two = end_of(job, 8) + end_of(job, 9);

  EXPECT_EQ(shortened(end_of(job, 7) + last_two, last_two.size()), last_two);
}

TEST(RunsShortened, no_more_is_kept_than_allowed) {
  std::string log;
  for (std::uint64_t fence = 1; fence <= 30; ++fence) log += end_of(job, fence);

  for (std::size_t most = 0; most < log.size(); most += 61) {
    EXPECT_LE(shortened(log, most).size(), most + end_of(job, 30).size());
  }
}

TEST(RunsShortened, the_newest_20_runs_of_a_busy_lock_are_kept) {
  std::string log;
  for (std::uint64_t fence = 1; fence <= 50; ++fence) {
    log += start_of(job, fence) + end_of(job, fence);
  }

  const auto kept = shortened(log, 1'000'000);

  EXPECT_EQ(kept.find("\"fence\":30,"), std::string::npos);
  EXPECT_NE(kept.find("\"fence\":31,"), std::string::npos);
  EXPECT_NE(kept.find("\"fence\":50,"), std::string::npos);
}

TEST(RunsShortened, a_busy_lock_does_not_push_out_a_quiet_one) {
  const LockName quiet{"dlock", "quiet"};
  std::string log = end_of(quiet, 1);
  for (std::uint64_t fence = 2; fence <= 500; ++fence) log += end_of(job, fence);

  EXPECT_EQ(history_of(shortened(log, 50'000)).last_runs.count(quiet), 1u);
}

TEST(RunsShortened, the_greatest_fence_is_kept_however_old_it_is) {
  const auto now = static_cast<std::uint64_t>(wall_now().count());
  const auto greatest = start_of(job, now);
  std::string log = end_of(job, 1) + greatest;
  for (std::uint64_t fence = 2; fence <= 500; ++fence) log += end_of(job, fence);

  const auto kept = shortened(log, 5'000);

  EXPECT_EQ(history_of(kept).greatest_fence.number, now);
  EXPECT_EQ(kept.rfind(greatest, 0), 0u);
  EXPECT_EQ(kept.find(greatest, 1), std::string::npos);
}

TEST(RunsShortened, garbage_is_not_kept) {
  EXPECT_EQ(shortened("garbage\n" + end_of(job, 7) + "{}\n", 1'000'000), end_of(job, 7));
}

class RunsLogFile : public ::testing::Test {
 protected:
  void write(const std::string& text) {
    std::ofstream(file_, std::ios::binary | std::ios::app) << text;
  }

  TemporaryDirectory root_;
  Directory directory_ =
      *Directory::open(root_.file("store"), false, Directory::Missing::create);
  std::string file_ = root_.file("store/runs.jsonl");
  RunsLog log_{directory_};
};

TEST_F(RunsLogFile, a_missing_log_is_an_empty_history) {
  EXPECT_TRUE(log_.read().last_runs.empty());
}

TEST_F(RunsLogFile, appended_lines_are_read_as_they_were_written) {
  write(start_of(job, 7));
  log_.append(end_line(job, run_with_fence(7)) + "\n");

  EXPECT_EQ(log_.read().last_runs.at(job).outcome, "ran");
}

TEST_F(RunsLogFile, a_line_after_a_truncated_one_is_complete) {
  write("{\"event\":\"st");

  log_.append(end_line(job, run_with_fence(7)) + "\n");

  EXPECT_EQ(log_.read().last_runs.at(job).fence.number, 7u);
}

TEST_F(RunsLogFile, a_start_recorded_after_a_truncated_line_is_complete) {
  write("{\"event\":\"st");
  auto note = start_line(job, holder_with_fence(7));

  const auto file = log_.open_for_note(note);
  note += "77" + std::string(start_line_time) + "5000" + start_line_end;
  ASSERT_EQ(::write(file.get(), note.data(), note.size()),
            static_cast<ssize_t>(note.size()));

  EXPECT_EQ(command_of(log_.text(), job, Fence{7})->pid, 77);
}

TEST_F(RunsLogFile, shortening_bounds_the_size_of_the_file) {
  std::string log;
  for (std::uint64_t fence = 1; log.size() < (8u << 20); ++fence) {
    auto run = run_with_fence(fence);
    run.host.assign(10'000, 'h');
    log += end_line({"dlock", "job-" + std::to_string(fence)}, run) + "\n";
  }
  write(log);

  EXPECT_EQ(log_.append(end_line(job, run_with_fence(99'999)) + "\n"),
            RunsLog::Length::too_long);
  log_.shorten();

  EXPECT_LE(std::filesystem::file_size(file_), 4u << 20);
  EXPECT_EQ(log_.read().greatest_fence.number, 99'999u);
}

TEST_F(RunsLogFile, a_file_of_usual_length_is_not_shortened) {
  EXPECT_EQ(log_.append(end_line(job, run_with_fence(7)) + "\n"), RunsLog::Length::usual);
  const auto before = log_.text();

  log_.shorten();

  EXPECT_EQ(log_.text(), before);
}

TEST_F(RunsLogFile, lines_appended_while_the_file_is_shortened_are_not_lost) {
  constexpr std::uint64_t lines = 400;
  const std::string padding = std::string(999, 'x') + "\n";
  std::string much;
  while (much.size() < (8u << 20)) much += padding;

  // A process, as in reality: each process has one umask, which is changed for a moment.
  const pid_t others = ::fork();
  if (others == 0) {
    for (std::uint64_t fence = 1; fence <= lines; ++fence) {
      auto run = run_with_fence(fence);
      // Longer than a page, so a reader may see a line that is only half written.
      run.host = std::string(5000, 'h');
      log_.append(end_line({"dlock", "job-" + std::to_string(fence)}, run) + "\n");
    }
    ::_exit(0);
  }
  do {
    write(much);
    log_.shorten();
  } while (::waitpid(others, nullptr, WNOHANG) == 0);

  EXPECT_EQ(log_.read().last_runs.size(), lines);
}

}  // namespace
}  // namespace dlock::local
