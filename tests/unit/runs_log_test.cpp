// The log of runs: its lines are read as they were written, garbage is skipped, and its
// size is bounded.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
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

TEST(RunsLogLines, any_text_leaves_one_line_of_valid_json) {
  auto holder = holder_with_fence(7);
  holder.argv = {"echo", "a\nb", "\xFF"};

  const auto line = start_of(job, holder);

  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_TRUE(Json::accept(line));
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
  run.exit_code.reset();
  run.signal = "TERM";
  const auto by_signal = history_of(end_line(job, run) + "\n").last_runs.at(job);
  EXPECT_EQ(by_signal.exit_code, std::nullopt);
  EXPECT_EQ(by_signal.signal, "TERM");
}

// "start7 end7 end8@other": the lines of a log, of the lock `job` or of another one.
std::string log_of(const std::string& words) {
  std::istringstream stream(words);
  std::string log;
  for (std::string word; stream >> word;) {
    const auto number = word.find_first_of("0123456789");
    const auto at = std::min(word.find('@'), word.size());
    const auto fence = std::stoull(word.substr(number));
    const auto lock = at == word.size() ? job : LockName{"dlock", word.substr(at + 1)};
    auto holder = holder_with_fence(fence);
    auto run = run_with_fence(fence);
    const auto kind = word.substr(0, number);
    if (kind == "uncounted") holder.counts = false;
    if (kind == "start" || kind == "uncounted") {
      log += start_of(lock, holder);
      continue;
    }
    if (kind == "grant") {
      log += grant_line(lock, holder) + "\n";
      continue;
    }
    if (kind == "failed") run.exit_code = 1;
    if (kind == "missing") run.exit_code = 127;
    if (kind == "slot" || kind == "by_hand") run.counts = false;
    if (kind == "running") run.outcome = "running";
    if (kind == "by_hand") run.outcome = by_hand, run.exit_code.reset();
    if (kind == "never") run = never_started_run(holder);
    log += end_line(lock, run) + "\n";
  }
  return log;
}

// What the log says of the lock `job`, and the greatest fence of all locks.
std::string told_by(const std::string& words) {
  const auto history = history_of(log_of(words));
  std::string text;
  if (const auto last = history.last_runs.find(job); last != history.last_runs.end()) {
    const auto& run = last->second;
    text += "last " + std::to_string(run.fence.number) + " " + run.outcome + ", ";
  }
  if (const auto runs = history.runs.find(job); runs != history.runs.end()) {
    text += "runs";
    for (const auto& run : runs->second) text += " " + std::to_string(run.fence.number);
    text += ", ";
  }
  if (const auto past = history.past.find(job); past != history.past.end()) {
    const auto& [last, success] = past->second;
    if (last) text += "counts " + std::to_string(last->fence.number) + ", ";
    if (success) text += "success " + std::to_string(success->fence.number) + ", ";
  }
  return text + "greatest " + std::to_string(history.greatest_fence.number);
}

TEST(RunsHistory, is_what_the_lines_tell_together) {
  constexpr std::pair<const char*, const char*> histories[] = {
      {"", "greatest 0"},
      {"start7", "last 7 vanished, runs 7, greatest 7"},
      {"start7 end7", "last 7 ran, runs 7, counts 7, success 7, greatest 7"},
      // The last run is the one with the greatest fence.
      {"end7 end9 end8", "last 9 ran, runs 7 8 9, counts 9, success 9, greatest 9"},
      {"end7 end8@other", "last 7 ran, runs 7, counts 7, success 7, greatest 8"},
      {"start12@other end7", "last 7 ran, runs 7, counts 7, success 7, greatest 12"},
      {"start7 end12@other", "last 7 vanished, runs 7, greatest 12"},
      {"end1@other end7 slot8 end8 start9",
       "last 9 vanished, runs 7 8 9, counts 8, success 8, greatest 9"},
      // Only some runs can count.
      {"end7 failed8 missing9 slot10",
       "last 10 ran, runs 7 8 9 10, counts 8, success 7, greatest 10"},
      {"end7 start8", "last 8 vanished, runs 7 8, counts 7, success 7, greatest 8"},
      {"uncounted7", "last 7 vanished, runs 7, greatest 7"},
      {"start7 never7", "greatest 7"},
      // A run that has ended is not running, whatever its line says.
      {"running8", "last 8 vanished, runs 8, counts 8, success 8, greatest 8"},
      // A manual lease is listed, but is not the last run.
      {"end7 grant9", "last 7 ran, runs 7 9, counts 7, success 7, greatest 9"},
      {"end7 grant9 by_hand9", "last 7 ran, runs 7 9, counts 7, success 7, greatest 9"}};
  for (const auto& [log, told] : histories) EXPECT_EQ(told_by(log), told) << log;
}

TEST(RunsHistory, a_lease_by_hand_has_an_end_once_it_is_released) {
  const auto cut_off = history_of(log_of("grant9")).runs.at(job).at(0);
  const auto ended = history_of(log_of("grant9 by_hand9")).runs.at(job).at(0);

  EXPECT_EQ(cut_off.outcome, by_hand);
  EXPECT_FALSE(cut_off.ended);
  EXPECT_EQ(ended.ended, run_with_fence(9).ended);
}

TEST(RunsHistory, each_lock_has_its_own_last_run) {
  const LockName same_name{"other", "job"};
  const auto history = history_of(log_of("end7 end9@other") + end_of(same_name, 8));

  EXPECT_EQ(history.last_runs.at(job).fence.number, 7u);
  EXPECT_EQ(history.last_runs.at(same_name).fence.number, 8u);
  EXPECT_EQ(history.last_runs.at({"dlock", "other"}).fence.number, 9u);
}

TEST(RunsHistory, only_the_last_20_runs_of_a_lock_are_kept) {
  std::string log;
  for (std::uint64_t fence = 1; fence <= 30; ++fence) log += end_of(job, fence);

  const auto history = history_of(log);

  ASSERT_EQ(history.runs.at(job).size(), 20u);
  EXPECT_EQ(history.runs.at(job).front().fence.number, 11u);
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

TEST(RunsHistory, a_line_whose_field_counts_is_missing_or_invalid_does_not_count) {
  const auto history = history_of(
      R"({"event":"end","namespace":"dlock","name":"job","fence":7,"exit_code":0})"
      "\n"
      R"({"event":"end","namespace":"dlock","name":"job","fence":8,"exit_code":0,)"
      R"("counts":"yes"})"
      "\n");

  EXPECT_TRUE(history.past.empty());
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
  // It had started by the end of the recorded millisecond.
  EXPECT_EQ(command_of(log, job, Fence{7})->not_after,
            Clock::time_point(milliseconds(5001)));
}

TEST(CommandOf, is_unknown_for_another_lock_or_grant_or_without_a_time) {
  for (const auto& log :
       {std::string(), log_of("start7@other"), start_of({"other", "job"}, 7),
        log_of("end7"), log_of("start17"),
        start_line(job, holder_with_fence(7)) + "77" + start_line_end}) {
    EXPECT_FALSE(command_of(log, job, Fence{7})) << log;
  }
}

TEST(CommandOf, is_unknown_if_the_start_is_truncated) {
  const auto line = start_of(job, 7);

  for (std::size_t size = 0; size < line.size(); ++size) {
    EXPECT_FALSE(command_of(line.substr(0, size), job, Fence{7})) << size;
  }
}

TEST(RunsShortened, the_newest_lines_are_kept_in_their_order_and_no_garbage) {
  const auto all = log_of("start7 end7 start8");
  EXPECT_EQ(shortened(all, 1'000'000), all);
  const auto last_two = log_of("end8 end9");
  EXPECT_EQ(shortened(end_of(job, 7) + last_two, last_two.size()), last_two);
  EXPECT_EQ(shortened("garbage\n" + end_of(job, 7) + "{}\n", 1'000'000), end_of(job, 7));
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

TEST_F(RunsLogFile, lines_are_read_as_they_were_written_even_after_a_truncated_one) {
  EXPECT_TRUE(log_.read().last_runs.empty());
  write(start_of(job, 7));
  log_.append(end_of(job, 7));
  EXPECT_EQ(log_.read().last_runs.at(job).outcome, "ran");
  write("{\"event\":\"st");
  log_.append(end_of(job, 8));

  EXPECT_EQ(log_.read().last_runs.at(job).fence.number, 8u);
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
