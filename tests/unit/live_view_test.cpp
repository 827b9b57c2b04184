// What `list --live` shows, and when it refreshes.

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/show/screen.hpp"
#include "cli/verbs/list_live.hpp"

namespace dlock {
namespace {

using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

LockInfo held_after_a_run() {
  LockInfo lock;
  lock.lock = {"dlock", "job"};
  HolderInfo holder;
  holder.fence = {42};
  holder.held = 3s;
  lock.holders.push_back(holder);
  lock.last_run = RunInfo{};
  lock.last_run->outcome = "ran";
  lock.last_run->exit_code = 0;
  return lock;
}

TEST(LiveView, holders_age_between_refreshes) {
  EXPECT_EQ(aged({held_after_a_run()}, 1500ms).at(0).holders.at(0).held, 4500ms);
}

TEST(LiveView, durations_do_not_count_as_changes) {
  auto older = held_after_a_run();
  older.holders[0].held += 1h;
  older.holders[0].expires_in = 5s;

  EXPECT_EQ(fingerprint_of({older}), fingerprint_of({held_after_a_run()}));
}

TEST(LiveView, everything_else_in_the_table_counts_as_a_change) {
  const auto before = fingerprint_of({held_after_a_run()});
  const auto after = [](auto change) {
    auto lock = held_after_a_run();
    change(lock);
    return fingerprint_of({lock});
  };

  EXPECT_NE(before, fingerprint_of({}));
  EXPECT_NE(before, fingerprint_of({held_after_a_run(), held_after_a_run()}));
  EXPECT_NE(before, after([](LockInfo& lock) { lock.lock.name = "other"; }));
  EXPECT_NE(before, after([](LockInfo& lock) { lock.holders.clear(); }));
  EXPECT_NE(before, after([](LockInfo& lock) { lock.holders[0].fence = {43}; }));
  EXPECT_NE(before, after([](LockInfo& lock) { lock.holders[0].foreign = true; }));
  EXPECT_NE(before, after([](LockInfo& lock) { lock.mode = Mode::shared; }));
  EXPECT_NE(before, after([](LockInfo& lock) { lock.slots = 2; }));
  EXPECT_NE(before, after([](LockInfo& lock) { lock.waiters.emplace_back(); }));
  EXPECT_NE(before, after([](LockInfo& lock) { lock.last_run->exit_code = 1; }));
  EXPECT_NE(before, after([](LockInfo& lock) { lock.last_run->started += 1s; }));
}

TEST(LiveView, events_cause_a_refresh_soon_but_not_one_by_one) {
  const Clock::time_point last(1h);

  EXPECT_EQ(next_look(last, true), last + 100ms);
  EXPECT_EQ(next_look(last, false), last + 2s);
}

TEST(LiveView, lines_that_fit_the_window_are_shown_unchanged) {
  EXPECT_EQ(lines_within("a\nb\nc\n", "", {80, 3}), (Lines{"a", "b", "c"}));
  EXPECT_EQ(lines_within("a\nb\n", "last", {80, 3}), (Lines{"a", "b", "last"}));
}

TEST(LiveView, lines_that_do_not_fit_are_counted) {
  EXPECT_EQ(lines_within("a\nb\nc\nd\n", "", {80, 3}), (Lines{"a", "b", "and 2 more"}));
  EXPECT_EQ(lines_within("a\nb\nc\n", "last", {80, 3}),
            (Lines{"a", "and 2 more", "last"}));
  EXPECT_EQ(lines_within("a\nb\nc\n", "last", {80, 1}), (Lines{"last"}));
  EXPECT_EQ(lines_within("a\nb\nc\n", "", {80, 1}), (Lines{"and 3 more"}));
}

TEST(LiveView, no_line_is_wider_than_the_window) {
  EXPECT_EQ(lines_within("abcdefghij\n", "klmnopqrst", {8, 24}),
            (Lines{"abcde...", "klmno..."}));
}

TEST(LiveView, lines_are_drawn_over_the_previous_ones) {
  EXPECT_EQ(drawn({"a", "b"}), "\x1b[Ha\x1b[K\r\nb\x1b[K\x1b[J");
}

TEST(LiveView, after_a_failure_the_age_of_the_table_and_the_reason_are_shown) {
  EXPECT_EQ(trouble_text(12s, "web1: connection refused"),
            "(as of 12s ago: web1: connection refused)");
}

}  // namespace
}  // namespace dlock
