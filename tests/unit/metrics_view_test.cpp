// Locks as Prometheus reads them.

#include "cli/show/metrics_view.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "lock/history.hpp"

namespace dlock {
namespace {

using namespace std::chrono_literals;

LockInfo free_job() {
  LockInfo lock;
  lock.lock = {"dlock", "job"};
  return lock;
}

LockInfo held_job() {
  auto lock = free_job();
  lock.free = 0;
  lock.holders.resize(1);
  lock.holders[0].held = 192s;
  return lock;
}

LockInfo lock_with_run() {
  auto lock = free_job();
  RunInfo run;
  run.started = 1'600'000'000s;
  run.ended = 1'600'000'002s + 250ms;
  run.duration = 2250ms;
  run.exit_code = 3;
  run.outcome = "ran";
  lock.last_run = run;
  return lock;
}

std::string metrics_of(const std::vector<LockInfo>* locks,
                       const std::vector<LockHistory>& histories = {}) {
  std::string text;
  show_metrics("dlock", locks, histories, [&](const auto& more) { text += more; });
  return text;
}

std::string metrics_of(const std::vector<LockInfo>& locks) { return metrics_of(&locks); }

// The value of the only sample of a metric; empty if there is none.
std::string sample(const LockInfo& lock, const std::string& metric) {
  const auto text = "\n" + metrics_of({lock});
  const auto start = "\n" + metric + R"({name="job",namespace="dlock"} )";
  const auto at = text.find(start);
  if (at == std::string::npos) return "";
  const auto value = at + start.size();
  return text.substr(value, text.find('\n', value) - value);
}

const std::string up_text =
    "# HELP dlock_up Whether the store replies.\n"
    "# TYPE dlock_up gauge\n"
    "dlock_up{namespace=\"dlock\"} ";

TEST(Metrics, say_that_the_store_is_up_even_without_locks) {
  EXPECT_EQ(metrics_of(std::vector<LockInfo>()), up_text + "1\n");
}

TEST(Metrics, say_only_that_an_unavailable_store_is_down) {
  EXPECT_EQ(metrics_of(nullptr), up_text + "0\n");
}

TEST(Metrics, count_the_durations_of_the_runs_that_have_ended) {
  LockHistory history;
  history.lock = {"dlock", "job"};
  history.runs.resize(5);
  for (auto& run : history.runs) run.outcome = "ran";
  history.runs[0].duration = 100ms;
  history.runs[1].duration = 101ms;
  history.runs[2].duration = 48h;
  history.runs[3].duration = 1s;
  history.runs[3].outcome = "running";
  history.runs[4].duration = 1s;
  history.runs[4].outcome = by_hand;
  const std::vector locks{lock_with_run()};
  const auto text = metrics_of(&locks, {history});

  const std::string name = "dlock_run_duration_seconds";
  const std::string labels = R"({name="job",namespace="dlock")";
  EXPECT_NE(text.find("# TYPE " + name + " histogram\n" + name + "_bucket" + labels +
                      R"(,le="0.1"} 1)" + "\n"),
            std::string::npos);
  for (const auto* line : {R"(_bucket,le="1"} 2)", R"(_bucket,le="86400"} 2)",
                           R"(_bucket,le="+Inf"} 3)", "_sum} 172800.201", "_count} 3"}) {
    std::string expected(line);
    expected.insert(expected.find_first_of(",}"), labels);
    EXPECT_NE(text.find("\n" + name + expected + "\n"), std::string::npos) << expected;
  }
  EXPECT_EQ(metrics_of(std::vector{free_job()}).find(name), std::string::npos);
}

TEST(Metrics, have_their_help_and_type_once_and_a_sample_for_each_lock) {
  auto other = held_job();
  other.lock = {"shop", "web 1"};

  EXPECT_EQ(
      metrics_of({free_job(), other}),
      up_text +
          "1\n# HELP dlock_lock_holders Holders of the lock.\n"
          "# TYPE dlock_lock_holders gauge\n"
          "dlock_lock_holders{name=\"job\",namespace=\"dlock\"} 0\n"
          "dlock_lock_holders{name=\"web 1\",namespace=\"shop\"} 1\n"
          "# HELP dlock_lock_waiters Waiters for the lock.\n"
          "# TYPE dlock_lock_waiters gauge\n"
          "dlock_lock_waiters{name=\"job\",namespace=\"dlock\"} 0\n"
          "dlock_lock_waiters{name=\"web 1\",namespace=\"shop\"} 0\n"
          "# HELP dlock_lock_slots Slots of the lock: how many holders it can have.\n"
          "# TYPE dlock_lock_slots gauge\n"
          "dlock_lock_slots{name=\"job\",namespace=\"dlock\"} 1\n"
          "dlock_lock_slots{name=\"web 1\",namespace=\"shop\"} 1\n"
          "# HELP dlock_lock_slots_free Free slots of the lock.\n"
          "# TYPE dlock_lock_slots_free gauge\n"
          "dlock_lock_slots_free{name=\"job\",namespace=\"dlock\"} 1\n"
          "dlock_lock_slots_free{name=\"web 1\",namespace=\"shop\"} 0\n"
          "# HELP dlock_lock_held_age_seconds How long the oldest holder has held the "
          "lock.\n"
          "# TYPE dlock_lock_held_age_seconds gauge\n"
          "dlock_lock_held_age_seconds{name=\"web 1\",namespace=\"shop\"} 192\n"
          "# HELP dlock_runs_refused_total Runs that were not granted the lock because "
          "others held it.\n"
          "# TYPE dlock_runs_refused_total counter\n"
          "dlock_runs_refused_total{name=\"job\",namespace=\"dlock\"} 0\n"
          "dlock_runs_refused_total{name=\"web 1\",namespace=\"shop\"} 0\n"
          "# HELP dlock_runs_superseded_total Runs that were superseded by a newer one.\n"
          "# TYPE dlock_runs_superseded_total counter\n"
          "dlock_runs_superseded_total{name=\"job\",namespace=\"dlock\"} 0\n"
          "dlock_runs_superseded_total{name=\"web 1\",namespace=\"shop\"} 0\n");
}

// What is changed of a lock that is held and whose last run failed, and what it shows.
struct MetricRow {
  std::function<void(LockInfo&)> change;
  std::map<std::string, std::string> shown;  // empty: no such sample
};

const MetricRow metric_rows[] = {
    {[](auto& lock) { lock.refused = 12'345'678'901, lock.superseded = 2; },
     {{"runs_refused_total", "12345678901"}, {"runs_superseded_total", "2"}}},
    {[](auto& lock) {
       lock.slots = 5, lock.free = 3;
       lock.holders.resize(2);
       lock.waiters.resize(3);
     },
     {{"lock_holders", "2"},
      {"lock_waiters", "3"},
      {"lock_slots", "5"},
      {"lock_slots_free", "3"}}},
    {[](auto& lock) { lock.mode = Mode::shared; },
     {{"lock_holders", "1"}, {"lock_slots", ""}, {"lock_slots_free", ""}}},
    // The oldest holder counts.
    {[](auto& lock) { lock.holders.resize(3), lock.holders[1].held = 200s + 1ms; },
     {{"lock_held_age_seconds", "200.001"}}},
    {[](auto& lock) { lock.holders[0].foreign = true; },
     {{"lock_holders", "1"}, {"lock_held_age_seconds", ""}}},
    {[](auto& lock) { lock.holders[0].held = 0ms; }, {{"lock_held_age_seconds", "0"}}},
    {[](auto& lock) { lock.holders[0].held = 1ms; },
     {{"lock_held_age_seconds", "0.001"}}},
    {[](auto& lock) { lock.holders[0].held = 999ms; },
     {{"lock_held_age_seconds", "0.999"}}},
    {[](auto& lock) { lock.holders[0].held = 1s; }, {{"lock_held_age_seconds", "1"}}},
    {[](auto& lock) { lock.holders[0].held = 60'100ms; },
     {{"lock_held_age_seconds", "60.1"}}},
    {[](auto& lock) { lock.holders[0].held = -5ms; }, {{"lock_held_age_seconds", "0"}}},
    {[](auto&) {},
     {{"last_run_success", "0"},
      {"last_run_exit_code", "3"},
      {"last_run_duration_seconds", "2.25"},
      {"last_run_ended_timestamp_seconds", "1600000002.25"},
      {"last_success_timestamp_seconds", ""}}},
    {[](auto& lock) { lock.last_success = lock.last_run; },
     {{"last_success_timestamp_seconds", "1600000002.25"}}},
    {[](auto& lock) { lock.last_run->exit_code = 0; },
     {{"last_run_success", "1"}, {"last_run_exit_code", "0"}}},
    // As a shell reports a signal.
    {[](auto& lock) { lock.last_run->exit_code.reset(), lock.last_run->signal = "KILL"; },
     {{"last_run_success", "0"}, {"last_run_exit_code", "137"}}},
    {[](auto& lock) { lock.last_run->exit_code.reset(), lock.last_run->signal = "FROB"; },
     {{"last_run_success", "0"}, {"last_run_exit_code", ""}}},
    {[](auto& lock) { lock.last_run = RunInfo(), lock.last_run->outcome = "vanished"; },
     {{"last_run_success", "0"},
      {"last_run_exit_code", ""},
      {"last_run_duration_seconds", ""},
      {"last_run_ended_timestamp_seconds", ""}}},
    {[](auto& lock) { lock.last_run = RunInfo(), lock.last_run->outcome = "running"; },
     {{"last_run_success", ""}}},
};

TEST(Metrics, show_a_lock_its_holders_and_its_last_run) {
  for (const auto& row : metric_rows) {
    auto lock = held_job();
    lock.last_run = lock_with_run().last_run;
    row.change(lock);
    for (const auto& [metric, value] : row.shown) {
      EXPECT_EQ(sample(lock, "dlock_" + metric), value)
          << metric << " " << &row - metric_rows;
    }
  }
}

std::string label_of(const std::string& name) {
  auto lock = free_job();
  lock.lock.name = name;
  auto text = metrics_of({lock});
  text.resize(text.find("\",namespace"));
  return text.substr(text.find("name=\"") + 6);
}

TEST(Metrics, labels_are_escaped_as_the_format_requires) {
  EXPECT_EQ(label_of(R"(a"b)"), R"(a\"b)");
  EXPECT_EQ(label_of(R"(a\b)"), R"(a\\b)");
  EXPECT_EQ(label_of(R"(a\"b\)"), R"(a\\\"b\\)");
  EXPECT_EQ(label_of("{a=b, c}"), "{a=b, c}");
  EXPECT_EQ(label_of("b\xC3\xBCro"), "b\xC3\xBCro");
}

TEST(Metrics, invalid_names_become_printable_text) {
  EXPECT_EQ(label_of("a\nb"), R"(a\\nb)");
  EXPECT_EQ(label_of("a\xFF"), R"(a\\xff)");
}

TEST(Metrics, the_namespace_is_escaped_too) {
  auto lock = free_job();
  lock.lock.name_space = "a\"b";

  EXPECT_NE(metrics_of({lock}).find(R"(,namespace="a\"b"})"), std::string::npos);
}

}  // namespace
}  // namespace dlock
