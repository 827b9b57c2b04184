// Locks as `status` and `list` show them.

#include "cli/show/lock_view.hpp"

#include <gtest/gtest.h>

namespace dlock {
namespace {

using namespace std::chrono_literals;

const std::string store = "redis://db";

HolderInfo some_holder() {
  HolderInfo holder;
  holder.fence.number = 42;
  holder.slot = 0;
  holder.host = "web1";
  holder.pid = 123;
  holder.user = "root";
  holder.command = {"./backup.sh", "all of it"};
  holder.label = "nightly";
  holder.since = 1'700'000'000s;
  holder.held = 3min + 12s;
  return holder;
}

WaiterInfo some_waiter() {
  WaiterInfo waiter;
  waiter.host = "web2";
  waiter.pid = 456;
  waiter.user = "www-data";
  waiter.since = 1'700'000'001s;
  waiter.waiting = 1500ms;
  return waiter;
}

RunInfo some_run() {
  RunInfo run;
  run.fence.number = 41;
  run.started = 1'600'000'000s;
  run.ended = 1'600'000'002s;
  run.duration = 2000ms;
  run.exit_code = 3;
  run.host = "web3";
  run.outcome = "ran";
  return run;
}

LockInfo free_lock() {
  LockInfo lock;
  lock.lock = {"dlock", "job"};
  lock.known = true;
  return lock;
}

LockInfo held_lock() {
  auto lock = free_lock();
  lock.free = 0;
  lock.holders = {some_holder()};
  return lock;
}

// JSON: the keys and their order are those of the manual.

TEST(LockJson, a_free_lock_has_no_holders) {
  EXPECT_EQ(
      to_line(json_of(free_lock())),
      R"({"name":"job","state":"free","known":true,"mode":"exclusive","slots":1,"free":1,)"
      R"("holders":[],"waiters":[],"last_run":null})");
}

TEST(LockJson, a_held_lock_has_holders_waiters_and_a_last_run) {
  auto lock = held_lock();
  lock.waiters = {some_waiter()};
  lock.last_run = some_run();

  EXPECT_EQ(
      to_line(json_of(lock)),
      R"({"name":"job","state":"held","known":true,"mode":"exclusive","slots":1,"free":0,)"
      R"("holders":[{"fence":42,"slot":0,"host":"web1","pid":123,"user":"root",)"
      R"("command":["./backup.sh","all of it"],"label":"nightly",)"
      R"("since":"2023-11-14T22:13:20.000Z","held_ms":192000,"expires_in_ms":null,)"
      R"("attached":true}],)"
      R"("waiters":[{"host":"web2","pid":456,"user":"www-data",)"
      R"("since":"2023-11-14T22:13:21.000Z","waiting_ms":1500}],)"
      R"("last_run":{"started":"2020-09-13T12:26:40.000Z",)"
      R"("ended":"2020-09-13T12:26:42.000Z","duration_ms":2000,"exit_code":3,)"
      R"("signal":null,"host":"web3","user":"","outcome":"ran"}})");
}

TEST(LockJson, a_lease_without_a_process_says_when_it_expires) {
  auto holder = some_holder();
  holder.attached = false;
  holder.expires_in = 20s;

  EXPECT_EQ(json_of(holder)["expires_in_ms"], 20'000);
  EXPECT_EQ(json_of(holder)["attached"], false);
  EXPECT_EQ(json_of(holder)["pid"], 123);
  holder.run_ended = true;
  EXPECT_EQ(json_of(holder)["pid"], nullptr);
}

TEST(LockJson, invalid_utf8_does_not_break_it) {
  auto holder = some_holder();
  holder.command = {"\xFF"};

  EXPECT_TRUE(Json::accept(to_line(json_of(holder))));
}

// Text

// The status of a lock that is held, after a change of its holder.
template <typename Change>
std::string status_with(Change change) {
  auto lock = held_lock();
  change(lock.holders[0]);
  return status_text(lock, store, false);
}

TEST(LockText, tells_what_is_unusual_of_a_holder) {
  struct Row {
    void (*change)(HolderInfo&);
    const char* in_one_line;
    const char* in_the_table;
  };
  constexpr Row rows[] = {
      {[](HolderInfo&) {},
       "root@web1 (pid 123, nightly: ./backup.sh 'all of it') for 3m12s",
       "  root@web1  123  3m12s  42     nightly  ./backup.sh 'all of it'\n"},
      {[](HolderInfo& one) {
         one.attached = false, one.command = {}, one.label = "", one.expires_in = 27s;
       },
       "root@web1 (pid 123) for 3m12s, expires in 27s",
       "  root@web1  123  3m12s  42     (detached, expires in 27s)\n"},
      {[](HolderInfo& one) {
         one.attached = false, one.for_pid = true, one.command = {}, one.expires_in = 27s;
       },
       "root@web1 (renewed for pid 123, nightly) for 3m12s",
       "nightly  (renewed for pid 123)\n"},
      {[](HolderInfo& one) { one.run_ended = true, one.expires_in = 20s; },
       "root@web1 (ended, nightly: ./backup.sh 'all of it') for 3m12s, held for another "
       "20s",
       "  root@web1  -    3m12s  42     nightly  ./backup.sh 'all of it'  (ended, held "
       "for "
       "another 20s)\n"},
      {[](HolderInfo& one) { one.dlock_gone = true; },
       "root@web1 (pid 123, nightly: ./backup.sh 'all of it') for 3m12s",
       "(its dlock process has exited)"}};
  for (const auto& row : rows) {
    auto holder = some_holder();
    row.change(holder);
    EXPECT_EQ(described(holder), row.in_one_line);
    const auto status = status_with(row.change);
    EXPECT_NE(status.find(row.in_the_table), std::string::npos) << status;
  }
}

TEST(LockText, explains_why_the_lock_was_not_granted) {
  Busy busy;
  EXPECT_EQ(refusal_text(busy, 1), "promised to a waiter");
  busy.holders = {some_holder(), some_holder()};
  EXPECT_EQ(
      refusal_text(busy, 1),
      "held by root@web1 (pid 123, nightly: ./backup.sh 'all of it') for 3m12s, and "
      "by 1 other");
  busy.holders.push_back(some_holder());
  EXPECT_TRUE(refusal_text(busy, 1).ends_with(" for 3m12s, and by 2 others"));
  EXPECT_EQ(refusal_text(SlotsDiffer{3}, 2),
            "in use with 3 slots, not 2: all users of a lock must set the same --slots");
  EXPECT_EQ(refusal_text(HeldByOuterRun{}, 1), "held by an outer run");
}

TEST(WaitingText, describes_the_holder_as_far_as_there_is_room) {
  Busy busy;
  HolderInfo holder;
  holder.user = "root";
  holder.host = "web1";
  holder.pid = 123;
  holder.held = 192s;
  holder.command = {"./backup.sh", "--all"};
  busy.holders = {holder};
  busy.place = 2;
  busy.queued = 5;

  const std::string whole =
      "waiting: held by root@web1 (pid 123, ./backup.sh --all) for 3m12s; position 2 of "
      "5";
  EXPECT_EQ(waiting_text(busy, 83), whole);
  EXPECT_EQ(waiting_text(busy, whole.size()), whole);
  EXPECT_EQ(waiting_text(busy, whole.size() - 1),
            "waiting: held by root@web1 (pid 123, ./backup.sh -...) for 3m12s; position "
            "2 of 5");
  EXPECT_EQ(waiting_text(busy, 63),
            "waiting: held by root@web1 (pid 123) for 3m12s; position 2 of 5");
  EXPECT_EQ(waiting_text(busy, 55),
            "held by root@web1 (pid 123) for 3m12s; position 2 of 5");
  EXPECT_EQ(waiting_text(busy, 50), "held by root@web1 for 3m12s; position 2 of 5");
  EXPECT_EQ(waiting_text(busy, 33), "held for 3m12s; position 2 of 5");
  EXPECT_EQ(waiting_text(busy, 23), "position 2 of 5, held for 3m12s");  // too long
}

TEST(WaitingText, shows_the_label_if_there_is_room_for_it) {
  Busy busy;
  auto holder = some_holder();
  holder.command = {"./backup.sh"};
  busy.holders = {holder};
  busy.place = 2;
  busy.queued = 5;

  EXPECT_EQ(waiting_text(busy, 90),
            "waiting: held by root@web1 (pid 123, nightly: ./backup.sh) for 3m12s; "
            "position 2 of 5");
  EXPECT_EQ(waiting_text(busy, 73),
            "waiting: held by root@web1 (pid 123, nightly) for 3m12s; position 2 of 5");
  EXPECT_EQ(waiting_text(busy, 55),
            "held by root@web1 (nightly) for 3m12s; position 2 of 5");
  EXPECT_EQ(waiting_text(busy, 53),
            "held by root@web1 (nig...) for 3m12s; position 2 of 5");
  EXPECT_EQ(waiting_text(busy, 48), "held by root@web1 for 3m12s; position 2 of 5");
}

TEST(WaitingText, shows_the_position_if_nobody_holds_the_lock) {
  Busy busy;
  busy.place = 1;
  busy.queued = 2;

  EXPECT_EQ(waiting_text(busy, 10), "waiting; position 1 of 2");
}

TEST(LockText, a_free_lock_is_one_line) {
  EXPECT_EQ(status_text(free_lock(), store, false), "job  free\n");
}

TEST(LockText, a_held_lock_has_a_table_of_holders) {
  auto lock = held_lock();
  lock.holders[0].label = "";

  EXPECT_EQ(status_text(lock, store, false),
            "job  held\n"
            "\n"
            "  HOLDER     PID  FOR    FENCE  COMMAND\n"
            "  root@web1  123  3m12s  42     ./backup.sh 'all of it'\n");
}

TEST(LockText, labels_have_a_column_if_there_are_any) {
  auto lock = held_lock();
  lock.holders.push_back(some_holder());
  lock.holders[1].label = "";
  lock.mode = Mode::shared;

  EXPECT_EQ(status_text(lock, store, false),
            "job  held, shared\n"
            "\n"
            "  HOLDER     PID  FOR    FENCE  LABEL    COMMAND\n"
            "  root@web1  123  3m12s  42     nightly  ./backup.sh 'all of it'\n"
            "  root@web1  123  3m12s  42              ./backup.sh 'all of it'\n");
}

TEST(LockText, slots_have_a_column_if_there_are_several) {
  auto lock = held_lock();
  lock.slots = 3;
  lock.free = 2;
  lock.holders[0].label = "";
  lock.holders[0].slot = 1;

  EXPECT_EQ(status_text(lock, store, false),
            "job  held, 2 of 3 slots free\n"
            "\n"
            "  HOLDER     PID  FOR    FENCE  SLOT  COMMAND\n"
            "  root@web1  123  3m12s  42     1     ./backup.sh 'all of it'\n");
}

TEST(LockText, waiters_have_a_table_whose_widths_count_characters_and_not_bytes) {
  auto lock = free_lock();
  lock.waiters = {some_waiter(), some_waiter()};
  lock.waiters[0].host = "b\xC3\xBCro";

  EXPECT_EQ(status_text(lock, store, false),
            "job  free\n"
            "\n"
            "  WAITER         PID  FOR\n"
            "  www-data@b\xC3\xBCro  456  1.5s\n"
            "  www-data@web2  456  1.5s\n");
}

TEST(LockText, describes_the_last_run) {
  constexpr std::pair<void (*)(RunInfo&), const char*> rows[] = {
      {[](RunInfo&) {}, "exit 3, 2h5m ago, took 2.0s on web3\n"},
      {[](RunInfo& run) { run.signal = "KILL"; }, "killed by SIGKILL, "},
      {[](RunInfo& run) {
         run.outcome = "vanished", run.exit_code.reset(), run.ended.reset();
       },
       "vanished (end not recorded), "},
      {[](RunInfo& run) { run.outcome = "timeout", run.exit_code = 124; },
       "timeout, exit 124, "},
      {[](RunInfo& run) { run.ended = wall_now() + 1h; }, "exit 3, 0ms ago, "}};
  for (const auto& [change, text] : rows) {
    auto lock = free_lock();
    lock.last_run = some_run();
    lock.last_run->ended = wall_now() - (2h + 5min + 30s);
    change(*lock.last_run);
    const auto status = status_text(lock, store, false);
    EXPECT_EQ(status.find("job  free\n\n  last run: " + std::string(text)), 0u) << status;
  }
}

TEST(LockText, a_list_of_no_locks_is_empty) { EXPECT_EQ(list_text({}, false), ""); }

TEST(LockText, a_list_has_a_line_for_each_lock) {
  auto semaphore = held_lock();
  semaphore.lock.name = "gpu";
  semaphore.slots = 3;
  semaphore.free = 1;
  semaphore.holders.push_back(some_holder());
  semaphore.waiters = {some_waiter()};

  EXPECT_EQ(list_text({free_lock(), semaphore, held_lock()}, false),
            "LOCK  STATE     HOLDER        FOR    WAITING  LAST RUN\n"
            "job   free      -             -      0        -\n"
            "gpu   2/3 held  root@web1 +1  3m12s  1        -\n"
            "job   held      root@web1     3m12s  0        -\n");
}

TEST(LockText, a_list_shows_how_the_last_run_ended) {
  auto lock = free_lock();
  lock.last_run = some_run();
  lock.last_run->ended = wall_now() - (2h + 5min + 30s);

  EXPECT_EQ(list_text({lock}, false),
            "LOCK  STATE  HOLDER  FOR  WAITING  LAST RUN\n"
            "job   free   -       -    0        exit 3, 2h5m ago\n");
}

TEST(LockText, text_from_the_store_is_escaped) {
  auto lock = held_lock();
  lock.lock.name = "\x1b]0;name";
  lock.waiters = {some_waiter()};
  lock.last_run = some_run();
  for (auto* text :
       {&lock.holders[0].host, &lock.holders[0].user, &lock.holders[0].label,
        &lock.holders[0].command[0], &lock.waiters[0].host, &lock.waiters[0].user,
        &lock.last_run->host, &lock.last_run->outcome}) {
    *text = "\x1b[2J";
  }
  auto by_signal = lock;
  by_signal.last_run->signal = "\x1b[2J";

  for (const auto& shown :
       {status_text(lock, store, false), list_text({lock}, false),
        described(lock.holders[0]), status_text(by_signal, store, false)}) {
    EXPECT_EQ(shown.find('\x1b'), std::string::npos) << shown;
  }
}

TEST(LockText, colours_are_used_if_requested) {
  EXPECT_EQ(status_text(free_lock(), store, true), "job  \x1b[32mfree\x1b[0m\n");
}

TEST(LockText, colours_change_nothing_else) {
  auto lock = held_lock();
  lock.waiters = {some_waiter()};
  lock.last_run = some_run();
  lock.last_run->ended = wall_now() - (2h + 5min + 30s);
  auto text = status_text(lock, store, true) + list_text({lock}, true);

  for (auto at = text.find('\x1b'); at != std::string::npos; at = text.find('\x1b')) {
    text.erase(at, text.find('m', at) - at + 1);
  }

  EXPECT_EQ(text, status_text(lock, store, false) + list_text({lock}, false));
}

// Runs in a sentence

TEST(RunText, describes_a_vanished_run) {
  RunInfo run;
  run.started = 1'600'000'000s;
  run.host = "web\x1b[2J";
  run.outcome = "vanished";

  EXPECT_EQ(
      described(run),
      "it ran on web\\x1b[2J at 2020-09-13T12:26:40.000Z: vanished (end not recorded)");
}

}  // namespace
}  // namespace dlock
