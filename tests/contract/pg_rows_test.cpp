// The rows of a PostgreSQL table as the place of states, where that differs from the
// place in memory with which tests/contract/stepped_test.cpp tests the steps.

#include "store/postgres/pg_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <list>
#include <random>
#include <string>

#include "store/postgres/pg_news.hpp"
#include "store/postgres/pg_schema.hpp"
#include "store/postgres/pg_wire.hpp"
#include "tests/contract/contender.hpp"
#include "tests/run_end.hpp"

namespace dlock::postgres {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

class RowsOfLocks : public ::testing::Test {
 protected:
  using Access = stepped::StateStore::Access;
  using Change = stepped::StateStore::Change;
  using Snapshot = stepped::StateStore::Snapshot;
  using Database = PostgresWorld<false>;

  static std::string sql(const std::string& statement) {
    return Database::server().session().command(statement);
  }

  // Of another process.
  struct Client {
    explicit Client(asio::io_context& context)
        : rows(context,
               hosts_of(parsed_store_url(Database::server().url()), milliseconds(5000))),
          wakeup(context) {}
    PgRows rows;
    Wakeup wakeup;
  };

  // Another process that watches.
  struct Watcher {
    explicit Watcher(RowsOfLocks& test)
        : context(test.context_),
          primary(context, hosts_of(parsed_store_url(Database::server().url()),
                                    milliseconds(5000))),
          wakeup(context) {
      const Batch listen{
          {"LISTEN " + events_channel("dlock", test.lock_.name_space), {}}};
      result_of(context, primary.exchange(std::vector<Batch>{listen}, soon(wakeup)));
    }
    // Expects that it is told, and that the only event has this word.
    void expect(const std::string& word) {
      const auto told = result_of(context, primary.notification(soon(wakeup)));
      const auto line = sql("SELECT line FROM dlock.event");
      sql("DELETE FROM dlock.watcher; DELETE FROM dlock.event");
      EXPECT_TRUE(told);
      EXPECT_NE(line.find(word), std::string::npos) << line;
    }
    asio::io_context& context;
    PgPrimary primary;
    Wakeup wakeup;
  };

  static Call soon(Wakeup& wakeup) { return wakeup.within(seconds(8)); }
  asio::awaitable<Snapshot> reading(Client& client, Access access) {
    return client.rows.read(lock_, access, soon(client.wakeup));
  }
  Snapshot read(Client& client, Access access = Access::optimistic) {
    return result_of(context_, reading(client, access));
  }
  bool write(Client& client, const Snapshot& snapshot, const Change& change) {
    return result_of(context_,
                     client.rows.write(lock_, snapshot, change, soon(client.wakeup)));
  }
  // Changes what was read in a way that can be seen.
  static Change counted(const Snapshot& snapshot) {
    Change change;
    change.state = snapshot.state;
    ++change.state.refused;
    return change;
  }
  bool count(Client& client) {
    const auto snapshot = read(client);
    return write(client, snapshot, counted(snapshot));
  }
  // How long a party sleeps that may sleep for 5 s.
  milliseconds slept(Client& client, rules::Session party) {
    const auto began = Clock::now();
    const auto call = client.wakeup.within(seconds(5));
    result_of(context_, client.rows.sleep(party, 1, call));
    return std::chrono::floor<milliseconds>(Clock::now() - began);
  }
  void wake(Client& client, rules::Session party) {
    const auto snapshot = read(client);
    auto change = counted(snapshot);
    change.wake = {party};
    change.in_front = {party + 1000};
    ASSERT_TRUE(write(client, snapshot, change));
  }

  asio::io_context context_;
  Database world_;
  LockName lock_{"dlock", "job"};
};

constexpr rules::Session party = 42;
constexpr milliseconds a_moment{2000};

TEST_F(RowsOfLocks, are_not_written_if_another_step_was_faster) {
  Client slow(context_);
  Client fast(context_);
  ASSERT_TRUE(count(slow));
  const auto before = read(slow);
  ASSERT_TRUE(count(fast));

  EXPECT_FALSE(write(slow, before, counted(before)));

  EXPECT_EQ(sql("SELECT refused FROM dlock.lock"), "2");
}

TEST_F(RowsOfLocks, that_are_made_again_match_no_request_for_those_before_them) {
  Client slow(context_);
  Client fast(context_);
  const auto missing = read(slow);
  ASSERT_TRUE(count(fast));
  const auto before = read(slow);
  sql("DELETE FROM dlock.lock");
  ASSERT_TRUE(count(fast));

  EXPECT_GT(read(fast).version, before.version);
  EXPECT_FALSE(write(slow, before, counted(before)));
  EXPECT_FALSE(write(slow, missing, counted(missing)));
}

// After a wait for the row, the clock before it would cut short what others were granted
// meanwhile.
TEST_F(RowsOfLocks, are_read_with_the_clock_behind_their_lock) {
  Client client(context_);
  ASSERT_TRUE(count(client));
  auto other = Database::server().session();
  other.command("BEGIN");
  other.command("SELECT 1 FROM dlock.lock FOR UPDATE");
  Task<Snapshot> waiting(context_, reading(client, Access::exclusive));
  ASSERT_TRUE(eventually(context_, [] {
    return sql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'app' AND "
               "wait_event_type = 'Lock'") == "1";
  }));
  const auto still_waiting = Clock::now();
  const auto let_go = other.command(in_full("SELECT " + std::string(clock_micros)));

  other.command("ROLLBACK");

  const auto read = waiting.result();
  EXPECT_GE(read.now.wall.count(), std::stoll(let_go));
  // From here on a lease is counted.
  EXPECT_LT(read.sent_at, still_waiting);
}

TEST_F(RowsOfLocks,
       of_a_right_are_on_disk_before_the_answer_and_others_are_not_waited_for) {
  Client client(context_);
  ASSERT_TRUE(count(client));
  sql("CREATE TABLE noted (id serial, how text);"
      "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ "
      "BEGIN INSERT INTO noted (how) VALUES (current_setting('synchronous_commit')); "
      "RETURN NEW; END $$;"
      "CREATE TRIGGER note BEFORE UPDATE ON dlock.lock FOR EACH ROW EXECUTE FUNCTION "
      "note()");
  for (const auto access : {Access::optimistic, Access::exclusive}) {
    for (const bool is_right : {true, false}) {
      const auto snapshot = read(client, access);
      auto change = counted(snapshot);
      change.gives_a_right = is_right;
      EXPECT_TRUE(write(client, snapshot, change));
    }
  }

  EXPECT_EQ(sql("SELECT string_agg(how, ' ' ORDER BY id) FROM noted"), "on off on off");

  sql("DROP FUNCTION note() CASCADE; DROP TABLE noted");
}

TEST_F(RowsOfLocks,
       of_a_grant_are_written_before_it_is_known_who_watches_and_are_told_then) {
  Client client(context_);
  ASSERT_TRUE(count(client));
  Watcher watcher(*this);
  const auto snapshot = read(client);
  auto change = counted(snapshot);
  change.gives_a_right = true;
  change.state.last_fence = {7};
  auto& holder = change.state.holders.emplace_back();
  holder.party.token.bytes = random_bytes();
  holder.fence = {7};
  holder.lives_until = snapshot.now.boot + hours(1);
  holder.lease = hours(1);
  auto other = Database::server().session();
  other.command(
      "BEGIN; LOCK TABLE dlock.watcher; INSERT INTO dlock.watcher VALUES ('dlock', 'w', "
      "now() + interval '1 min')");

  EXPECT_TRUE(write(client, snapshot, change));

  other.command("COMMIT");
  read(client);
  watcher.expect("granted");
}

TEST_F(RowsOfLocks, that_a_trigger_drops_are_no_reason_to_try_again) {
  for (const char* event : {"INSERT", "UPDATE"}) {
    Client client(context_);
    sql("CREATE FUNCTION drop_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN "
        "NULL; END $$; CREATE TRIGGER drop_it BEFORE " +
        std::string(event) + " ON dlock.lock FOR EACH ROW EXECUTE FUNCTION drop_it()");

    EXPECT_FALSE(count(client)) << event;
    const auto snapshot = read(client, Access::exclusive);
    std::string said;
    try {
      write(client, snapshot, counted(snapshot));
    } catch (const Failure& failure) {
      said = failure.what();
      EXPECT_EQ(failure.kind(), Failure::Kind::misconfigured);
    }

    sql("DROP FUNCTION drop_it() CASCADE");
    EXPECT_NE(said.find("drops what dlock writes"), std::string::npos) << event << said;
    EXPECT_TRUE(count(client)) << event;
  }
}

TEST_F(RowsOfLocks, that_another_step_has_made_are_not_dropped) {
  Client client(context_);
  Client faster(context_);
  const auto before = read(client);
  ASSERT_TRUE(count(faster));
  EXPECT_FALSE(write(client, before, counted(before)));

  read(client);
  sql("DELETE FROM dlock.lock");

  const auto again = read(client);
  ASSERT_TRUE(count(faster));
  EXPECT_FALSE(write(client, again, counted(again)));
}

TEST_F(RowsOfLocks, wake_others_before_it_is_known_who_watches) {
  Client sleeper(context_);
  Client waker(context_);
  ASSERT_TRUE(count(sleeper));
  slept(sleeper, party);
  const auto snapshot = read(waker);
  auto change = counted(snapshot);
  change.wake = {party};
  change.state.waiters.emplace_back().party.token.bytes = random_bytes();  // an event
  auto other = Database::server().session();
  other.command("BEGIN; LOCK TABLE dlock.watcher");
  bool is_written = false;
  asio::co_spawn(context_, waker.rows.write(lock_, snapshot, change, soon(waker.wakeup)),
                 [&](const std::exception_ptr&, bool) { is_written = true; });

  EXPECT_LT(slept(sleeper, party), a_moment);

  EXPECT_FALSE(is_written);
  other.command("COMMIT");
  for (const auto end = soon(waker.wakeup); !is_written && !end.is_over();) {
    context_.restart();
    context_.run_for(milliseconds(10));
  }
  EXPECT_TRUE(is_written);
}

class PgKept : public RowsOfLocks {
 protected:
  // How many statements the server keeps for the session of this client.
  static std::string kept_for(asio::io_context& context, Client& client) {
    const Batch question{
        {"SELECT pg_catalog.count(*) FROM pg_catalog.pg_prepared_statements", {}}};
    const auto reply =
        result_of(context, client.rows.session().exchange(std::vector<Batch>{question},
                                                          soon(client.wakeup)));
    return reply.at(0).rows.at(0).at(0).value();
  }
  static std::vector<Batch> deallocation() {
    return std::vector<Batch>(1, Batch(1, Statement{"DEALLOCATE ALL", {}}));
  }
  void forget(Client& client) {
    result_of(context_,
              client.rows.session().exchange(deallocation(), soon(client.wakeup)));
  }
};

TEST_F(PgKept, statements_are_no_more_than_there_are_texts) {
  Client client(context_);
  ASSERT_TRUE(count(client));  // which makes the row
  ASSERT_TRUE(count(client));
  EXPECT_EQ(kept_for(context_, client), "0");  // as many exchanges as those of a run
  ASSERT_TRUE(count(client));
  const auto kept = kept_for(context_, client);

  for (int i = 0; i < 10; ++i) ASSERT_TRUE(count(client));

  EXPECT_NE(kept, "0");
  EXPECT_EQ(kept_for(context_, client), kept);
}

TEST_F(PgKept, statements_that_are_lost_cost_no_step) {
  for (const auto access : {Access::optimistic, Access::exclusive}) {
    Client client(context_);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(count(client));
    forget(client);
    const auto snapshot = read(client, access);

    EXPECT_TRUE(write(client, snapshot, counted(snapshot)));
    const auto kept = kept_for(context_, client);
    EXPECT_TRUE(count(client));
    EXPECT_EQ(kept_for(context_, client), kept);
  }
}

// The session has lost them behind the reading.
TEST_F(PgKept, statements_that_are_lost_in_a_transaction_let_the_step_be_repeated) {
  Client client(context_);
  for (int i = 0; i < 3; ++i) {
    const auto snapshot = read(client, Access::exclusive);
    ASSERT_TRUE(write(client, snapshot, counted(snapshot)));
  }
  const auto snapshot = read(client, Access::exclusive);
  result_of(context_, client.rows.session().go_on(deallocation(), soon(client.wakeup)));

  EXPECT_FALSE(write(client, snapshot, counted(snapshot)));

  EXPECT_TRUE(count(client));
}

TEST_F(RowsOfLocks, wake_a_party_that_joined_and_does_not_sleep_yet) {
  Client sleeper(context_);
  Client waker(context_);
  ASSERT_TRUE(count(sleeper));
  const std::array<Access, 2> accesses{Access::optimistic, Access::exclusive};
  for (rules::Session each = 0; each < accesses.size(); ++each) {
    const auto snapshot = read(sleeper, accesses[each]);
    auto joining = counted(snapshot);
    joining.sleeper = party + each;
    ASSERT_TRUE(write(sleeper, snapshot, joining));

    wake(waker, party + each);

    EXPECT_LT(slept(sleeper, party + each), a_moment);
  }
}

// A session that has ended took with it what the party would have been told.
TEST_F(RowsOfLocks, let_a_party_ask_again_that_begins_to_listen) {
  Client sleeper(context_);
  Client waker(context_);
  ASSERT_TRUE(count(sleeper));

  EXPECT_LT(slept(sleeper, party), a_moment);

  wake(waker, party);
  EXPECT_LT(slept(sleeper, party), a_moment);
}

TEST_F(RowsOfLocks, are_read_after_one_holder_stopped_to_listen_and_another_began) {
  Client client(context_);
  read(client);
  auto news = client.rows.listen(party, [] {});
  context_.restart();
  context_.poll();  // until it has asked the server
  news.reset();
  news = client.rows.listen(party + 1, [] {});

  EXPECT_NO_THROW(read(client));
}

TEST_F(RowsOfLocks, tell_who_is_in_front_without_waking_it) {
  Client sleeper(context_);
  Client waker(context_);
  ASSERT_TRUE(count(sleeper));
  slept(sleeper, party + 1000);

  wake(waker, party);
  wake(waker, party + 1000);

  const auto sleep = [&] {
    const auto call = sleeper.wakeup.within(seconds(5));
    return result_of(context_, sleeper.rows.sleep(party + 1000, 1, call));
  };
  EXPECT_TRUE(sleep());
  EXPECT_FALSE(sleep());
}

// Waiters that nothing wakes for a second tell what they have joined.
TEST_F(RowsOfLocks, of_one_that_joined_are_told_to_who_began_to_watch_meanwhile) {
  Client client(context_);
  ASSERT_TRUE(count(client));
  Watcher watcher(*this);
  const auto snapshot = read(client);
  sql("INSERT INTO dlock.watcher VALUES ('dlock', 'w', now() + interval '1 min')");
  auto change = counted(snapshot);
  change.sleeper = party;
  auto& waiter = change.state.waiters.emplace_back();
  waiter.party.token.bytes = random_bytes();
  waiter.lives_until = snapshot.now.boot + hours(1);

  ASSERT_TRUE(write(client, snapshot, change));

  slept(client, party);
  watcher.expect("queued");
}

TEST_F(RowsOfLocks, of_a_long_queue_are_waited_for_without_a_session) {
  Client client(context_);
  const auto snapshot = read(client);
  auto change = counted(snapshot);
  rules::Holder holder;
  holder.party.token.bytes = random_bytes();
  holder.fence = {7};
  holder.granted_at = snapshot.now.boot - hours(1);
  holder.lives_until = snapshot.now.boot + hours(1);
  holder.lease = hours(2);
  change.state.holders = {holder};
  for (int i = 0; i < 12; ++i) {
    rules::Waiter waiter;
    waiter.party.token.bytes = random_bytes();
    waiter.lives_until = snapshot.now.boot + hours(1);
    change.state.waiters.push_back(waiter);
  }
  ASSERT_TRUE(write(client, snapshot, change));
  const std::string theirs =
      "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dlock job' AND "
      "backend_start > to_timestamp(" +
      sql("SELECT extract(epoch FROM clock_timestamp())") + ")";
  Contender waiter(context_, world_, claim_of("job"));

  EXPECT_EQ(waiter.queued().place, 13u);

  EXPECT_TRUE(eventually(context_, [&] { return sql(theirs) == "0"; }));
}

TEST_F(RowsOfLocks, that_are_out_of_use_are_removed_some_releases_later) {
  Contender user(context_, world_, claim_of("job"));
  sql("INSERT INTO dlock.lock SELECT 'dlock', 'old' || i, 1, 1, '{}', '[]', 0, NULL, "
      "now() - interval '1 s' FROM generate_series(1, 50) i");
  sql("INSERT INTO dlock.lock VALUES ('dlock', 'kept', 1, 1, '{}', '[]', 0, NULL, "
      "now() + interval '1 h')");
  const auto is_swept = [] {
    return sql("SELECT string_agg(name, ' ') FROM dlock.lock WHERE name <> 'job'") ==
           "kept";
  };
  for (int i = 0; i < 2000 && !is_swept(); ++i) {
    user.granted();
    user.release();
  }

  EXPECT_TRUE(is_swept());
}

TEST_F(RowsOfLocks, of_limits_and_values_that_are_over_are_removed_some_changes_later) {
  Contender user(context_, world_, claim_of("cache:report"));
  sql("INSERT INTO dlock.rate SELECT 'dlock', 'old' || i, 1, 1, '{}', now() - interval "
      "'1 s' FROM generate_series(1, 50) i;"
      "INSERT INTO dlock.value SELECT 'dlock', 'old' || i, 1, 0, '', now(), now(), now() "
      "- interval '1 s' FROM generate_series(1, 50) i;"
      "INSERT INTO dlock.piece SELECT 'dlock', 'old' || i, 1, 0, '', now() - interval "
      "'1 s' FROM generate_series(1, 50) i");
  user.granted();
  RateClaim claim;
  claim.limit = {"dlock", "api"};
  claim.rate = {10'000, hours(1)};
  const auto left = [](const std::string& table) {
    return sql("SELECT count(*) FROM dlock." + table + " WHERE name LIKE 'old%'");
  };
  const auto is_swept = [&] {
    return left("rate") + left("value") + left("piece") == "000";
  };
  for (int i = 0; i < 2000 && !is_swept(); ++i) {
    claim.token.bytes = random_bytes();
    if (left("rate") != "0") {
      result_of(context_, rates_of(*user.store).admit(claim, user.wakeup));
    }
    if (left("value") + left("piece") != "00") user.put("42");
  }

  EXPECT_TRUE(is_swept());
}

// As a part of it, it would be undone with it, although it was reported as done.
TEST_F(RowsOfLocks, of_a_step_after_one_that_failed_under_the_lock_are_no_part_of_it) {
  Client client(context_);
  read(client, Access::exclusive);

  EXPECT_TRUE(count(client));

  EXPECT_EQ(sql("SELECT refused FROM dlock.lock"), "1");
}

// --- The same random history on both stores ---

// The fences themselves are clocks.
std::string text_of(const Answer& answer, Fence& greatest) {
  if (const auto* grant = std::get_if<Grant>(&answer)) {
    const bool is_new = grant->fence > greatest;
    greatest = std::max(greatest, grant->fence);
    return "granted slot " + std::to_string(grant->slot) + (is_new ? "" : " again");
  }
  if (const auto* busy = std::get_if<Busy>(&answer)) {
    return "busy " + std::to_string(busy->holders.size()) + " place " +
           std::to_string(busy->place) + " of " + std::to_string(busy->queued);
  }
  return "answer " + std::to_string(answer.index());
}

// A store with the contenders of a history.
template <typename World>
class Side {
 public:
  explicit Side(asio::io_context& context) : context_(context) {}

  void replace(unsigned who, const Claim& claim) {
    contenders_[who] = std::make_unique<Contender>(context_, world_, claim);
  }
  Contender& operator[](unsigned who) { return *contenders_[who]; }

  std::string ask(unsigned who, Queue queue) {
    return text_of(contenders_[who]->ask(queue), greatest_);
  }
  std::string seen() {
    const auto info = contenders_[0]->inspect();
    std::string text = std::to_string(info.free) + " free of " +
                       std::to_string(info.slots) + ", superseded " +
                       std::to_string(info.superseded) + ":";
    for (const auto& holder : info.holders) {
      text += " " + holder.label + (holder.broken ? " broken" : "");
    }
    return text + ", waiting " + std::to_string(info.waiters.size()) + ", runs " +
           std::to_string(contenders_[0]->history().size());
  }

 private:
  asio::io_context& context_;
  World world_;
  std::array<std::unique_ptr<Contender>, 5> contenders_;
  Fence greatest_{};
};

Claim random_claim(std::mt19937& dice) {
  auto claim = claim_of("job");
  claim.label = "\"\\\x01 語 " + std::to_string(dice() % 1000);
  claim.slots = 2;
  claim.ttl = hours(1);
  claim.supersedes = dice() % 3 == 0;
  claim.replaces = dice() % 5 == 0;
  if (dice() % 3 == 0) claim.max_queue = 2;
  return claim;
}

TEST_F(RowsOfLocks, show_the_same_as_a_store_in_memory_in_a_random_history) {
  std::mt19937 dice(1);
  Side<MemoryWorld> memory(context_);
  Side<Database> rows(context_);
  const auto replace = [&](unsigned who) {
    const auto claim = random_claim(dice);
    memory.replace(who, claim);
    rows.replace(who, claim);
  };
  for (unsigned who = 0; who < 5; ++who) replace(who);
  for (int step = 0; step < 100; ++step) {
    const auto who = static_cast<unsigned>(dice() % 5);
    if (dice() % 3 == 0) {
      const auto end = exit_with(static_cast<int>(dice() % 2));
      ASSERT_EQ(memory[who].release(end), rows[who].release(end)) << "step " << step;
      replace(who);
    } else {
      const auto queue = static_cast<Queue>(dice() % 3);
      ASSERT_EQ(memory.ask(who, queue), rows.ask(who, queue)) << "step " << step;
    }
    ASSERT_EQ(memory.seen(), rows.seen()) << "step " << step;
  }
}

}  // namespace
}  // namespace dlock::postgres
