#include "store/postgres/pg_states.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>

#include "net/budget.hpp"
#include "record/state_json.hpp"
#include "store/postgres/pg_errors.hpp"
#include "store/postgres/pg_news.hpp"
#include "store/postgres/pg_schema.hpp"
#include "util/bits.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

// One in so many releases removes locks that are out of use.
constexpr std::uint64_t releases_per_sweep = 64;

// For a request to end what the server is doing.
constexpr milliseconds cancel_patience{2000};

std::string text_of(std::int64_t number) { return std::to_string(number); }

std::int64_t left_until(Clock::time_point until) {
  const auto left = std::chrono::floor<milliseconds>(until - Clock::now()).count();
  return std::clamp<std::int64_t>(left, 1, 1'000'000'000);
}

// The settings hold until the end of the transaction. A role may have others.
constexpr const char* is_durable =
    "CASE WHEN pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) "
    "'remote_apply' THEN 'remote_apply' ELSE 'on' END";

std::string moment_text(Clock::time_point moment) {
  return seconds_text(std::chrono::floor<WallTime>(moment.time_since_epoch()));
}

bool is_read_only(const SqlError& error) { return error.code() == "25006"; }

}  // namespace

PgStates::PgStates(asio::io_context& context, std::shared_ptr<PgHosts> hosts)
    : context_(context),
      timeout_(hosts->timeout),
      shown_(hosts->targets.front().shown()),
      connection_(std::make_shared<PgPrimary>(context, std::move(hosts))) {}

std::string PgStates::table(std::string_view name) const {
  return in_schema(connection_->target().schema, name);
}

std::string PgStates::is_watched() const {
  return "EXISTS (SELECT 1 FROM " + table("watcher") +
         " w WHERE w.namespace OPERATOR(pg_catalog.=) $1 AND w.until "
         "OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp())";
}

Failure PgStates::unreadable(const std::string& what, const LockName& name,
                             bool is_newer) const {
  return Failure(Failure::Kind::misconfigured,
                 shown_ + ": the " + what + " " + printable_name(name.name) +
                     (is_newer ? " was written by a newer dlock: upgrade this one"
                               : " is damaged: somebody else has written to its row"));
}

Statement PgStates::durably(Clock::time_point until) const {
  return {std::string("SELECT pg_catalog.set_config('synchronous_commit', ") +
              is_durable + ", true), pg_catalog.set_config('lock_timeout', $1, true)",
          {text_of(left_until(until))}};
}

Batch PgStates::begin_exclusive(Clock::time_point until) const {
  const auto left = left_until(until);
  Batch batch;
  batch.push_back({"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", {}});
  // Whoever stops in here keeps others from the row for no longer than this.
  batch.push_back(
      {"SELECT pg_catalog.set_config('lock_timeout', $1, true), "
       "pg_catalog.set_config('idle_in_transaction_session_timeout', $2, true)",
       {text_of(left), text_of(std::max<std::int64_t>(left / 2, 1))}});
  return batch;
}

Statement PgStates::sweep(std::string_view name) const {
  return {"DELETE FROM " + table(name) +
              " WHERE ctid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT s.ctid FROM " +
              table(name) +
              " s WHERE s.keep_until OPERATOR(pg_catalog.<) pg_catalog.clock_timestamp() "
              "LIMIT 100 FOR UPDATE SKIP LOCKED))",
          {}};
}

// A commit with a warning is less than was asked for: a standby has not confirmed it.
void PgStates::require_confirmation(const std::vector<Result>& results) const {
  for (const auto& result : results) {
    if (result.warnings.empty()) continue;
    throw Failure(Failure::Kind::unreachable,
                  shown_ + " did not confirm what it has committed: " +
                      printable(result.warnings.front().message, 200));
  }
}

PgStates::Snapshot PgStates::snapshot_from(const LockName& lock, const Row& row,
                                           Clock::time_point sent_at) {
  const auto now = row.size() < 8 ? std::nullopt : number_at(row, 5);
  if (!now || !rules::is_possible(WallTime(*now))) {
    throw Failure(Failure::Kind::unreachable, shown_ + ": no time in the reply");
  }
  Snapshot read;
  read.sent_at = sent_at;
  read.epoch = connection_->timeline();
  read.now = {Clock::time_point(WallTime(*now)), WallTime(*now)};
  read.is_watched = row.at(6) == "t";
  is_pooled_ = number_at(row, 7) != connection_->session().pid;
  if (!row.at(0)) return read;
  read.version = *row[0];
  const bool is_newer = number_at(row, 1).value_or(0) > record::greatest_state_format;
  auto state = is_newer ? std::nullopt : record::state_from_json(row.at(2).value_or(""));
  auto runs = record::runs_from_json(row.at(3).value_or("[]"));
  const auto refused = number_at(row, 4).value_or(-1);
  if (!state || !runs || refused < 0) throw unreadable("lock", lock, is_newer);
  read.state = std::move(*state);
  read.state.runs = std::move(*runs);
  read.state.refused = static_cast<std::uint64_t>(refused);
  return read;
}

// The columns that snapshot_from() expects.
std::string PgStates::columns(bool with_runs) const {
  return "l.version, l.format, l.state, " + std::string(with_runs ? "l.runs" : "'[]'") +
         ", l.refused, " + std::string(clock_micros) + ", " + is_watched() +
         ", pg_catalog.pg_backend_pid()";
}

// The clock is read by the last statement, behind the lock of the row: within the same
// one it would be the time before that lock was waited for.
asio::awaitable<PgStates::Snapshot> PgStates::read(const LockName& lock, Access access,
                                                   Clock::time_point until,
                                                   Wakeup& wakeup) {
  const bool is_exclusive = access == Access::exclusive;
  connection_->introduce("dlock " + lock.name);
  const std::vector<std::optional<std::string>> key{lock.name_space, lock.name};
  Batch batch;
  if (is_exclusive) {
    batch = begin_exclusive(until);
    batch.push_back(
        {"SELECT 1 FROM " + table("lock") + " l WHERE " + key_is("l") + " FOR UPDATE",
         key});
  }
  batch.push_back({"SELECT " + columns(true) + " FROM (SELECT 1) one LEFT JOIN " +
                       table("lock") + " l ON " + key_is("l"),
                   key});
  std::vector<Batch> batches(1, std::move(batch));
  is_exclusive_ = false;
  const auto sent_at = Clock::now();
  const auto results = co_await exchange(std::move(batches), until, wakeup);
  is_exclusive_ = is_exclusive;
  const auto& rows = results.back().rows;
  if (rows.empty()) {
    throw Failure(Failure::Kind::unreachable, shown_ + ": a reply without a row");
  }
  std::optional<Failure> failure;
  try {
    co_return snapshot_from(lock, rows.front(), sent_at);
  } catch (const Failure& error) {
    failure = error;
  }
  if (is_exclusive) co_await leave(until, wakeup);
  throw *failure;
}

// The events are told within the statement that changes the row, so that they come in the
// order of the commits; and not at all if the row has another version by now.
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
      text_of(record::format_of(change.state)),
      std::move(*state),
      has_new_runs ? std::optional(record::runs_json(change.state.runs)) : std::nullopt,
      std::to_string(change.state.refused),
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
          "$6::pg_catalog.int8, due = pg_catalog.to_timestamp($7::pg_catalog.float8), "
          "keep_until = pg_catalog.to_timestamp($8::pg_catalog.float8) WHERE " +
          key_is("l") + " AND l.version OPERATOR(pg_catalog.=) $9::pg_catalog.int8";
  }
  if (events.empty()) return {sql + " RETURNING " + is_watched(), std::move(params)};
  const auto channel = "$" + std::to_string(params.size() + 1);
  const auto payloads = "$" + std::to_string(params.size() + 2);
  params.push_back(events_channel(connection_->target().schema, lock.name_space));
  params.push_back(payloads_of(events));
  return {"WITH done AS (" + sql + " RETURNING 1) SELECT pg_catalog.pg_notify(" +
              channel + ", e.payload) FROM done, pg_catalog.unnest(" + payloads +
              "::pg_catalog.text[]) WITH ORDINALITY AS e(payload, n) ORDER BY e.n",
          std::move(params)};
}

Statement PgStates::unimportantly(Clock::time_point until) const {
  return {
      "SELECT pg_catalog.set_config('synchronous_commit', 'off', true), "
      "pg_catalog.set_config('lock_timeout', $1, true)",
      {text_of(left_until(until))}};
}

asio::awaitable<bool> PgStates::write(const LockName& lock, const Snapshot& read,
                                      const Change& change, Clock::time_point until,
                                      Wakeup& wakeup) {
  const bool was_exclusive = is_exclusive_;
  if (change.gives_a_right) connection_->require_replicas();
  std::vector<Event> events;
  if (read.is_watched) events = stepped::events_of(lock, read, change);
  std::vector<Batch> batches;
  // It listens before it is in the queue, so nobody can wake it before.
  const bool begins_to_listen =
      change.sleeper && !is_exclusive_ && !polls() && !listens(*change.sleeper);
  if (begins_to_listen) batches.push_back(to_listen(*change.sleeper));
  const auto before = begins_to_listen ? batches.front().size() : 0;
  batches.emplace_back();
  batches.back().push_back(change.gives_a_right ? durably(until) : unimportantly(until));
  batches.back().push_back(to_write(lock, read, change, events));
  if (is_exclusive_) batches.back().push_back({"COMMIT", {}});
  // In a transaction of their own: a commit with notifications holds a lock of the whole
  // server, also while it waits for a standby.
  if (!change.wake.empty()) batches.push_back(to_wake(change.wake));
  if (change.cause.released_by && random_up_to(releases_per_sweep - 1) == 0) {
    batches.push_back({sweep("lock")});
    batches.back().front().may_fail = true;
  }
  std::optional<std::vector<Result>> results;
  try {
    if (was_exclusive) {
      results = co_await go_on(std::move(batches), until, wakeup);
    } else {
      results = co_await exchange(std::move(batches), until, wakeup);
    }
  } catch (const SqlError& error) {
    // Under an access of its own another isolation level and a right to write are set.
    // What comes after the write says nothing about it.
    const bool can_repeat =
        error.batch() <= (begins_to_listen ? 1u : 0u) &&
        (is_conflict(error) || (is_read_only(error) && !was_exclusive));
    if (!can_repeat) throw;
  } catch (const Failure& failure) {
    if (change.gives_a_right) end_wait_after(failure);
    throw;
  }
  is_exclusive_ = false;
  if (!results) co_return false;
  if (begins_to_listen) note_listening(*change.sleeper);
  const auto& written = results->at(before + 1);
  if (written.rows.empty()) co_return false;
  if (change.gives_a_right) require_confirmation(*results);
  const bool is_watched_now = events.empty() && written.rows.front().at(0) == "t";
  if (is_watched_now && !read.is_watched) {
    auto late = stepped::events_of(lock, read, change);
    co_await tell(lock, late, until, wakeup);
  }
  co_return true;
}

asio::awaitable<Result> PgStates::transact(Statement statement, Clock::time_point until,
                                           Wakeup& wakeup) {
  auto batch = begin_exclusive(until);
  batch.push_back(durably(until));
  const auto own = batch.size();
  batch.push_back(std::move(statement));
  batch.push_back({"COMMIT", {}});
  std::vector<Batch> batches(1, std::move(batch));
  // What is refused only afterwards would have been written nevertheless.
  const auto& replicas = connection_->hosts()->replicas;
  if (!connection_->is_open() && (replicas.all || replicas.count > 0)) {
    std::vector<Batch> nothing;
    co_await exchange(std::move(nothing), until, wakeup);
  }
  if (connection_->is_open()) connection_->require_replicas();
  std::vector<Result> results;
  try {
    results = co_await exchange(std::move(batches), until, wakeup);
  } catch (const Failure& failure) {
    end_wait_after(failure);
    throw;
  }
  connection_->require_replicas();
  require_confirmation(results);
  co_return std::move(results.at(own));
}

asio::awaitable<Result> PgStates::commit(Statement statement, Clock::time_point until,
                                         Wakeup& wakeup) {
  connection_->require_replicas();
  Batch batch;
  batch.push_back(durably(until));
  batch.push_back(std::move(statement));
  batch.push_back({"COMMIT", {}});
  std::vector<Batch> batches(1, std::move(batch));
  std::vector<Result> results;
  try {
    results = co_await go_on(std::move(batches), until, wakeup);
  } catch (const Failure& failure) {
    end_wait_after(failure);
    throw;
  }
  require_confirmation(results);
  co_return std::move(results.at(1));
}

asio::awaitable<void> PgStates::leave(Clock::time_point until, Wakeup& wakeup) {
  std::vector<Batch> batches(1, Batch(1, Statement{"ROLLBACK", {}}));
  is_exclusive_ = false;
  co_await go_on(std::move(batches), until, wakeup);
}

asio::awaitable<std::vector<std::pair<LockName, PgStates::Snapshot>>> PgStates::read_all(
    const std::string& name_space, bool with_runs, Clock::time_point until,
    Wakeup& wakeup) {
  Statement select{"SELECT " + columns(with_runs) + ", l.name FROM " + table("lock") +
                       " l WHERE l.namespace OPERATOR(pg_catalog.=) $1 ORDER BY l.name",
                   {name_space}};
  std::vector<Batch> batches(1, Batch(1, std::move(select)));
  const auto sent_at = Clock::now();
  const auto results = co_await exchange(std::move(batches), until, wakeup);
  std::vector<std::pair<LockName, Snapshot>> all;
  left_out_.clear();
  for (const auto& row : results.at(0).rows) {
    if (row.size() < 9) {
      throw Failure(Failure::Kind::unreachable, shown_ + ": a reply without a name");
    }
    const LockName lock{name_space, row[8].value_or("")};
    try {
      all.emplace_back(lock, snapshot_from(lock, row, sent_at));
    } catch (const Failure& failure) {
      left_out_.push_back(failure);
    }
  }
  co_return all;
}

// The commit of a grant that waits for a standby holds the row and its session until the
// standby is back, even if its client has gone.
void PgStates::end_wait_after(const Failure& failure) {
  const bool has_given_up = failure.kind() == Failure::Kind::interrupted ||
                            dynamic_cast<const net::Timeout*>(&failure) != nullptr;
  if (!has_given_up) return;
  const auto cancel = [](asio::io_context& context,
                         std::shared_ptr<PgPrimary> old) -> asio::awaitable<void> {
    Wakeup wakeup(context);
    try {
      co_await old->cancel(later(Clock::now(), cancel_patience), wakeup);
    } catch (const Failure&) {
      // It ends with its own timeout, or with the standby.
    }
  };
  auto old = std::exchange(connection_,
                           std::make_shared<PgPrimary>(context_, connection_->hosts()));
  listening_.clear();  // the other connection counts its sessions from the beginning
  asio::co_spawn(context_, cancel(context_, std::move(old)),
                 [](const std::exception_ptr&) {});
}

}  // namespace dlock::postgres
