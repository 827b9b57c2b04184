// The findings of `doctor` as text and as JSON.

#include "cli/show/doctor_view.hpp"

#include <gtest/gtest.h>

namespace dlock {
namespace {

using namespace std::chrono_literals;
using Level = Finding::Level;

Examination examination_with(std::vector<Finding> findings) {
  Examination examination;
  examination.findings = std::move(findings);
  return examination;
}

const Finding good{"role", Level::ok, "a primary", ""};
const Finding info{"clock", Level::info, "2h0m ahead", "harmless"};
const Finding risky{"persistence", Level::warning, "none", "appendonly yes"};
const Finding bad{"permissions", Level::error, "the user jobs may not call get",
                  "ACL SETUSER"};

const DoctorFormat to_pipe{};

TEST(DoctorText, has_each_finding_with_its_advice_and_then_a_summary) {
  EXPECT_EQ(examination_text(examination_with({good, risky, bad}), "redis://db", to_pipe),
            "ok       role         a primary\n"
            "warning  persistence  none\n"
            "                      -> appendonly yes\n"
            "error    permissions  the user jobs may not call get\n"
            "                      -> ACL SETUSER\n"
            "1 error, 1 warning in redis://db\n");
}

TEST(DoctorText, info_findings_are_not_problems) {
  EXPECT_EQ(examination_text(examination_with({good, info}), "redis://db", to_pipe),
            "ok       role   a primary\n"
            "info     clock  2h0m ahead\n"
            "                -> harmless\n"
            "no problems found in redis://db\n");
}

TEST(DoctorText, the_summary_counts_checks_that_could_not_be_made) {
  const Finding unknown{"eviction", Level::info, "not checked", "", false};

  EXPECT_EQ(examination_text(examination_with({good, unknown}), "redis://db", to_pipe),
            "ok       role      a primary\n"
            "info     eviction  not checked\n"
            "no problems found; 1 check could not be run in redis://db\n");
  EXPECT_EQ(examination_text(examination_with({unknown, risky, unknown}), "redis://db",
                             to_pipe),
            "info     eviction     not checked\n"
            "warning  persistence  none\n"
            "                      -> appendonly yes\n"
            "info     eviction     not checked\n"
            "1 warning; 2 checks could not be run in redis://db\n");
}

TEST(DoctorText, quiet_output_has_only_warnings_and_errors) {
  auto quiet = to_pipe;
  quiet.only_trouble = true;

  EXPECT_EQ(examination_text(examination_with({good, info}), "redis://db", quiet), "");
  EXPECT_EQ(examination_text(examination_with({good, risky, risky}), "redis://db", quiet),
            "warning  persistence  none\n"
            "                      -> appendonly yes\n"
            "warning  persistence  none\n"
            "                      -> appendonly yes\n"
            "2 warnings in redis://db\n");
}

TEST(DoctorText, lines_wrap_between_words_at_the_width_of_the_terminal) {
  auto narrow = to_pipe;
  narrow.columns = 46;

  EXPECT_EQ(examination_text(examination_with({bad}), "s", narrow),
            "error    permissions  the user jobs may not\n"
            "                      call get\n"
            "                      -> ACL SETUSER\n"
            "1 error in s\n");
}

TEST(DoctorText, lines_are_not_wrapped_for_a_very_narrow_terminal) {
  auto tiny = to_pipe;
  tiny.columns = 20;

  EXPECT_EQ(examination_text(examination_with({bad}), "s", tiny),
            examination_text(examination_with({bad}), "s", to_pipe));
}

TEST(DoctorText, color_tells_the_levels_apart) {
  auto colored = to_pipe;
  colored.color = true;

  const auto text = examination_text(examination_with({good, risky, bad}), "s", colored);

  EXPECT_NE(text.find("\x1b[32mok\x1b[0m       role"), std::string::npos) << text;
  EXPECT_NE(text.find("\x1b[33mwarning\x1b[0m  per"), std::string::npos) << text;
  EXPECT_NE(text.find("\x1b[31merror\x1b[0m    permissions"), std::string::npos) << text;
}

TEST(DoctorJson, has_the_findings_the_worst_level_and_the_round_trip) {
  auto examination = examination_with({good, risky});
  examination.round_trip = 210us;
  examination.smallest_ttl = 500ms;

  EXPECT_EQ(
      to_line(json_of(examination, "redis://db")),
      R"({"store":"redis://db","level":"warning","not_checked":0,"findings":[)"
      R"({"check":"role","level":"ok","message":"a primary","advice":null,"checked":true},)"
      R"({"check":"persistence","level":"warning","message":"none",)"
      R"("advice":"appendonly yes","checked":true}],"round_trip_ms":0.21,"smallest_ttl_ms":500})");
}

TEST(DoctorJson, missing_measurements_are_null_and_info_counts_as_ok) {
  EXPECT_EQ(
      to_line(json_of(examination_with({info}), "s")),
      R"({"store":"s","level":"ok","not_checked":0,"findings":[)"
      R"({"check":"clock","level":"info","message":"2h0m ahead",)"
      R"("advice":"harmless","checked":true}],"round_trip_ms":null,"smallest_ttl_ms":null})");
}

}  // namespace
}  // namespace dlock
