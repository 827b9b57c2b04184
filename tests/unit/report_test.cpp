// The report of a run: its keys, in the order of the manual, and its file.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "cli/run/run_output.hpp"
#include "cli/run/run_result.hpp"
#include "tests/unit/temporary_directory.hpp"
#include "util/failure.hpp"

namespace dlock {
namespace {

RunOptions job() {
  RunOptions options;
  options.name = "job";
  options.run_id = "id";
  options.command = {"backup.sh", "-v"};
  options.description.label = "nightly";
  return options;
}

std::string line_of(const RunResult& result) {
  const auto options = job();
  return report_line({options, "local:/srv/locks", "web2", "alice"}, result);
}

TEST(Report, a_command_that_ran_has_its_exit_code_its_grant_and_times) {
  RunResult result;
  result.outcome = RunOutcome::ran;
  result.is_protected = true;
  result.exit_code = 3;
  result.grant = Grant{Fence{42}, 1};
  result.waited = milliseconds(7);
  result.started = std::chrono::seconds(1'700'000'000);
  result.ran = milliseconds(1500);

  EXPECT_EQ(
      line_of(result),
      R"({"name":"job","run_id":"id","outcome":"ran","reason":null,"protected":true,)"
      R"("exit_code":3,"signal":null,"fence":42,"slot":1,)"
      R"("locks":[{"name":"job","fence":42,"slot":1,"reason":null}],)"
      R"("store":"local:/srv/locks","strength":null,"host":"web2",)"
      R"("user":"alice","command":["backup.sh","-v"],"label":"nightly",)"
      R"("started":"2023-11-14T22:13:20.000Z","ended":"2023-11-14T22:13:21.500Z",)"
      R"("waited_ms":7,"ran_ms":1500,"margin_ms":null,"holder":null,"output_tail":null,)"
      R"("message":null})"
      "\n");
}

TEST(Report, a_busy_lock_has_its_holder_and_a_message) {
  RunResult result;
  result.outcome = RunOutcome::busy;
  result.exit_code = 75;
  result.waited = milliseconds(0);
  result.message = "held by root@web1";
  HolderInfo holder;
  holder.fence.number = 41;
  holder.host = "web1";
  holder.pid = 123;
  holder.user = "root";
  holder.command = {"./backup.sh"};
  holder.since = std::chrono::seconds(1'700'000'000);
  holder.held = milliseconds(5);
  result.holder = holder;

  EXPECT_EQ(
      line_of(result),
      R"({"name":"job","run_id":"id","outcome":"busy","reason":null,"protected":null,)"
      R"("exit_code":75,"signal":null,"fence":null,"slot":null,)"
      R"("locks":[{"name":"job","fence":null,"slot":null,"reason":null}],)"
      R"("store":"local:/srv/locks","strength":null,"host":"web2",)"
      R"("user":"alice","command":["backup.sh","-v"],"label":"nightly",)"
      R"("started":null,"ended":null,"waited_ms":0,"ran_ms":null,"margin_ms":null,)"
      R"("holder":{"fence":41,"slot":0,"host":"web1","pid":123,"user":"root",)"
      R"("command":["./backup.sh"],"label":"","since":"2023-11-14T22:13:20.000Z",)"
      R"("held_ms":5,"expires_in_ms":null,"attached":true},"output_tail":null,)"
      R"("message":"held by root@web1"})"
      "\n");
}

TEST(Report, is_one_line_whatever_the_names_contain) {
  RunResult result;
  result.message = "a\nb\xFF";

  auto options = job();
  options.name = "na\xC3\xAFve \"job\"";
  options.command = {"a\nb"};

  const auto line = report_line({options, "local:/a\nb", "web2", "alice"}, result);

  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

TEST(Report, unknown_values_are_null) {
  auto options = job();
  options.description.label.clear();

  const auto line = report_line({options, "", "web2", "alice"}, RunResult{});

  EXPECT_NE(line.find(R"("store":null,)"), std::string::npos);
  EXPECT_NE(line.find(R"("label":null,)"), std::string::npos);
}

TEST(Report, of_a_run_in_progress_has_its_start_and_no_outcome) {
  RunResult result;
  result.outcome = RunOutcome::running;
  result.started = std::chrono::seconds(1'700'000'000);

  const auto line = line_of(result);

  EXPECT_NE(line.find(R"("outcome":null,)"), std::string::npos);
  EXPECT_NE(line.find(R"("started":"2023-11-14T22:13:20.000Z","ended":null,)"),
            std::string::npos);
}

TEST(Report, outcomes_have_the_names_of_the_manual) {
  EXPECT_EQ(name_of(RunOutcome::ran), "ran");
  EXPECT_EQ(name_of(RunOutcome::busy), "busy");
  EXPECT_EQ(name_of(RunOutcome::superseded), "superseded");
  EXPECT_EQ(name_of(RunOutcome::deduplicated), "deduplicated");
  EXPECT_EQ(name_of(RunOutcome::lost), "lost");
  EXPECT_EQ(name_of(RunOutcome::unavailable), "unavailable");
  EXPECT_EQ(name_of(RunOutcome::timeout), "timeout");
  EXPECT_EQ(name_of(RunOutcome::not_started), "not-started");
  EXPECT_EQ(name_of(RunOutcome::interrupted), "interrupted");
  EXPECT_EQ(name_of(RunOutcome::error), "error");
}

TEST(Report, losses_have_the_names_of_the_manual) {
  EXPECT_EQ(loss_name(Loss::taken_over), "taken over");
  EXPECT_EQ(loss_name(Loss::gone), "gone");
  EXPECT_EQ(loss_name(Loss::broken), "broken");
  EXPECT_EQ(loss_name(Loss::unconfirmed), "unconfirmed");
}

class ReportFiles : public ::testing::Test {
 protected:
  std::string contents() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  TemporaryDirectory root_;
  std::string path_ = root_.file("report.json");
};

TEST_F(ReportFiles, a_full_disk_is_reported) {
  EXPECT_FALSE(ReportFile("/dev/full").write("{}\n", -1));
}

}  // namespace
}  // namespace dlock
