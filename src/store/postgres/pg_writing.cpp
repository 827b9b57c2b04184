// PgStates: what it writes: a step, and what is counted and removed beside it.

#include <algorithm>
#include <utility>

#include "record/states.hpp"
#include "store/postgres/pg_errors.hpp"
#include "store/postgres/pg_news.hpp"
#include "store/postgres/pg_schema.hpp"
#include "store/postgres/pg_states.hpp"
#include "util/bits.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

// One in so many releases removes locks that are out of use.
constexpr std::uint64_t releases_per_sweep = 64;

std::string moment_text(Clock::time_point moment) {
  return seconds_text(std::chrono::floor<WallTime>(moment.time_since_epoch()));
}

bool is_read_only(const SqlError& error) { return error.code() == "25006"; }

// Whether the step grants a lease to a client that will release it.
bool is_attached_grant(const stepped::StateStore::Change& change) {
  const auto& holders = change.state.holders;
  return change.gives_a_right &&
         std::any_of(holders.begin(), holders.end(), [&](const rules::Holder& holder) {
           return holder.fence == change.state.last_fence && holder.lives_until;
         });
}

// Of a reading of the state.
bool tells_no_watcher(const Result& reply) {
  return !reply.rows.empty() && reply.rows[0].size() > 6 && reply.rows[0][6] == "f";
}

// By its tag: whether it is the result of what to_write() has made.
bool is_of_write(const Result& result, const PgStates::Snapshot& read,
                 const std::vector<Event>& events) {
  if (read.is_watched && !events.empty()) return result.tag.starts_with("SELECT");
  return result.tag.starts_with(read.version.empty() ? "INSERT" : "UPDATE");
}

}  // namespace

// The events are recorded within the statement that changes the row: in the order of the
// lock's steps, and not at all if the row has another version by now.
Statement PgStates::to_write(const LockName& lock, const Snapshot& read,
                             const Change& change,
                             const std::vector<Event>& events) const {
  auto state = record::state_json(change.state);
  if (!state) {
    throw Failure(Failure::Kind::exhausted,
                  shown_ + ": too many holders of the lock " + printable_name(lock.name));
  }
  const auto due = stepped::due_of(change.state);
  const bool is_new = read.version.empty();
  const bool has_new_runs = is_new || change.state.runs != read.state.runs;
  std::vector<std::optional<std::string>> params{
      lock.name_space,
      lock.name,
      std::to_string(record::format_of(change.state)),
      std::move(*state),
      has_new_runs ? std::optional(record::runs_json(change.state.runs)) : std::nullopt,
      std::to_string(change.state.refused - read.state.refused),
      due ? std::optional(moment_text(*due)) : std::nullopt,
      moment_text(stepped::keep_until(change.state, read.now))};
  std::string sql;
  if (is_new) {
    // Never from 1 on: a late request for a lock that was removed must not fit this one.
    sql = "INSERT INTO " + table("lock") +
          " AS l (namespace, name, version, format, state, runs, refused, due, "
          "keep_until) VALUES ($1, $2, " +
          std::string(clock_micros) +
          ", $3::pg_catalog.int2, $4, $5, $6::pg_catalog.int8, "
          "pg_catalog.to_timestamp($7::pg_catalog.float8), "
          "pg_catalog.to_timestamp($8::pg_catalog.float8)) ON CONFLICT DO NOTHING";
  } else {
    params.push_back(read.version);
    sql = "UPDATE " + table("lock") +
          " l SET version = l.version OPERATOR(pg_catalog.+) 1, format = "
          "$3::pg_catalog.int2, state = $4, runs = COALESCE($5, l.runs), refused = "
          "l.refused OPERATOR(pg_catalog.+) $6::pg_catalog.int8, due = "
          "pg_catalog.to_timestamp($7::pg_catalog.float8), "
          "keep_until = pg_catalog.to_timestamp($8::pg_catalog.float8) WHERE " +
          key_is("l") + " AND l.version OPERATOR(pg_catalog.=) $9::pg_catalog.int8";
  }
  if (events.empty()) return {sql + " RETURNING 1", std::move(params)};
  params.push_back(lines_of(events));
  return {
      "WITH done AS (" + sql + " RETURNING 1), told AS (" +
          to_record(connection_->target().schema, "$" + std::to_string(params.size())) +
          ", done ORDER BY e.n) SELECT 1 FROM done",
      std::move(params)};
}

// Statements of a step that writes, and where the result of its change is.
struct PgStates::Writing {
  std::vector<Batch> batches;  // the first one with the change,
  std::size_t change = 0;      // which is this statement of it
  bool listens = false;        // from now on
  bool asks = false;           // whether there is a watcher: the last statement
  bool asks_later = false;     // with what is sent next
  bool rehearses = false;      // the reading when it is woken: the last statement
};

PgStates::Writing PgStates::writing_of(const LockName& lock, const Snapshot& read,
                                       const Change& change,
                                       const std::vector<Event>& events,
                                       Clock::time_point until) const {
  Writing writing;
  Batch step;
  step.push_back(change.gives_a_right ? durably(until) : unimportantly(until));
  // The server registers who listens before others can see what the same transaction has
  // written, so it is not woken before.
  writing.listens = change.sleeper && !polls() && !listens(*change.sleeper);
  if (writing.listens) {
    for (auto& statement : to_listen(*change.sleeper))
      step.push_back(std::move(statement));
  }
  writing.change = step.size();
  step.push_back(
      to_write(lock, read, change, read.is_watched ? events : std::vector<Event>()));
  if (is_exclusive_) {
    step.push_back({"COMMIT", {}});
  } else {
    const auto size = step.size();
    step = writable(std::move(step));
    if (step.size() != size) ++writing.change;  // behind BEGIN
  }
  writing.batches.push_back(std::move(step));
  // In a separate transaction: a commit with notifications holds a lock of the whole
  // server, even while it waits for a standby.
  auto after = to_wake(change.wake, change.in_front);
  if (read.is_watched && !events.empty()) {
    after.push_back(to_hint(connection_->target().schema, lock.name_space));
  }
  // Behind the commit: whoever begins to watch before it has a row by then. Who holds or
  // waits does something else soon, and the question can be a part of that.
  const bool is_untold = !events.empty() && !read.is_watched;
  writing.asks_later =
      is_untold && !polls() && (change.sleeper || is_attached_grant(change));
  writing.asks = is_untold && !writing.asks_later;
  // Those who are woken need not wait until it is answered.
  if (!after.empty()) writing.batches.push_back(std::move(after));
  if (writing.asks) {
    writing.batches.push_back(Batch(1, watcher_question(lock.name_space)));
  }
  // The server then knows the statement, and how to execute it, when every moment counts.
  writing.rehearses = writing.listens && connection_->keeps_statements();
  if (writing.rehearses) {
    writing.batches.push_back(Batch(1, reading(lock)));
    writing.batches.back().front().may_fail = true;
  }
  return writing;
}

// The implicit transaction of a batch can write unless the role is read-only by default.
// After an error behind BEGIN the transaction must be rolled back, so it is not used
// without need.
Batch PgStates::writable(Batch batch) const {
  const bool is_read_only = is_read_only_ || connection_->is_read_only();
  return is_read_only ? in_transaction(std::move(batch)) : batch;
}

// What a step has not told.
Batch PgStates::telling(const LockName& lock, const std::vector<Event>& events,
                        Clock::time_point until) const {
  auto batch = to_tell(connection_->target().schema, lock, events);
  batch.insert(batch.begin(), unimportantly(until));
  return writable(std::move(batch));
}

Failure PgStates::dropped_write() const {
  return Failure(Failure::Kind::misconfigured,
                 shown_ + ": a trigger, a rule or a policy of the table " +
                     connection_->target().schema + ".lock drops what dlock writes");
}

asio::awaitable<bool> PgStates::write(const LockName& lock, const Snapshot& read,
                                      const Change& change, Call call) {
  const bool was_exclusive = is_exclusive_;
  if (change.gives_a_right) connection_->require_replicas();
  const auto events = stepped::events_of(lock, read, change);
  auto writing = writing_of(lock, read, change, events, call.until);
  std::optional<std::vector<Result>> results;
  try {
    if (was_exclusive) {
      results = co_await go_on(std::move(writing.batches), call);
    } else {
      results = co_await exchange(std::move(writing.batches), call);
    }
  } catch (const SqlError& error) {
    // Under exclusive access another isolation level and a right to write are set.
    // What comes after the write says nothing about it.
    is_read_only_ = is_read_only_ || is_read_only(error);
    const bool can_repeat =
        error.batch() == 0 &&
        (is_conflict(error) || (is_read_only(error) && !was_exclusive));
    if (!can_repeat) throw;
  } catch (const Failure& failure) {
    if (change.gives_a_right) end_wait_after(failure);
    throw;
  }
  is_exclusive_ = false;
  if (!results) co_return false;
  if (!is_of_write(results->at(writing.change), read, events)) {
    throw Failure(Failure::Kind::unreachable, shown_ + " replied to something else");
  }
  if (writing.listens) note_listening(*change.sleeper);
  if (results->at(writing.change).rows.empty()) {
    // No other step could change the row; or if there is none, another step has made it,
    // so the next reading finds it.
    const bool is_new = read.version.empty();
    if (is_new ? lost_row_ == lock : was_exclusive) throw dropped_write();
    if (is_new) lost_row_ = lock;
    co_return false;
  }
  if (change.gives_a_right) {
    connection_->require_replicas();
    require_confirmation(*results);
  }
  const bool is_unwatched = writing.rehearses && tells_no_watcher(results->back());
  if (writing.asks_later && !is_unwatched) {
    const auto passed = std::chrono::ceil<WallTime>(Clock::now() - read.read_at);
    untold_ = Untold{lock, events, read.now.wall + passed};
  }
  if (writing.asks && says_yes(results->back())) {
    auto told = telling(lock, events, later(Clock::now(), bookkeeping_patience));
    co_await post(std::move(told), call.wakeup);
  }
  if (change.cause.released_by && random_up_to(releases_per_sweep - 1) == 0) {
    co_await sweep("lock", call.wakeup);
  }
  co_return true;
}

// Without the version, which a count must not change under others, and without the rest
// of the row, which is of a step that another one may have followed. It waits for no one.
asio::awaitable<void> PgStates::count_refused(LockName lock, Wakeup& wakeup) {
  const auto until = later(Clock::now(), bookkeeping_patience);
  Statement count{"UPDATE " + table("lock") +
                      " SET refused = refused OPERATOR(pg_catalog.+) 1 WHERE ctid "
                      "OPERATOR(pg_catalog.=) (SELECT l.ctid FROM " +
                      table("lock") + " l WHERE " + key_is("l") +
                      " FOR UPDATE SKIP LOCKED)",
                  {lock.name_space, lock.name}};
  Batch batch{unimportantly(until), std::move(count)};
  batch = writable(std::move(batch));
  co_await post(std::move(batch), wakeup);
}

asio::awaitable<void> PgStates::sweep(std::string name, Wakeup& wakeup) {
  Statement remove{
      "DELETE FROM " + table(name) +
          " WHERE ctid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT s.ctid FROM " +
          table(name) +
          " s WHERE s.keep_until OPERATOR(pg_catalog.<) pg_catalog.clock_timestamp() "
          "LIMIT 100 FOR UPDATE SKIP LOCKED))",
      {}};
  const auto until = later(Clock::now(), bookkeeping_patience);
  Batch batch{unimportantly(until), std::move(remove)};
  batch = writable(std::move(batch));
  co_await post(std::move(batch), wakeup);
}

}  // namespace dlock::postgres
