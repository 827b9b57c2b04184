#include "store/postgres/pg_rows.hpp"

#include <algorithm>
#include <utility>

#include "net/budget.hpp"
#include "record/states.hpp"
#include "store/postgres/pg_errors.hpp"
#include "store/postgres/pg_lock_sql.hpp"
#include "store/postgres/pg_news.hpp"
#include "store/postgres/pg_schema.hpp"
#include "store/postgres/pg_transaction.hpp"
#include "store/postgres/pg_watch.hpp"
#include "util/bits.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

// Of all pages: a server that repeats them without end is not read for ever.
constexpr std::size_t most_locks = 5'000'000;

// One in so many releases removes locks that are out of use.
constexpr std::uint64_t releases_per_sweep = 64;

bool is_read_only(const SqlError& error) { return error.code() == "25006"; }

// Whether the step grants a lease to a client that will release it.
bool is_attached_grant(const stepped::StateStore::Change& change) {
  const auto& holders = change.state.holders;
  return change.gives_a_right &&
         std::ranges::any_of(holders, [&](const rules::Holder& holder) {
           return holder.fence == change.state.last_fence && holder.lives_until;
         });
}

// Of a reading of the state.
bool tells_no_watcher(const Result& reply) {
  constexpr auto column = lock_column::is_watched;
  return !reply.rows.empty() && reply.rows[0].size() > column &&
         reply.rows[0][column] == "f";
}

}  // namespace

PgRows::Snapshot PgRows::snapshot_from(const LockName& lock, const Row& row,
                                       Clock::time_point sent_at) const {
  const auto now = time_at(row, lock_column::clock, session_.shown());
  Snapshot read;
  read.sent_at = sent_at;
  read.read_at = Clock::now();
  read.epoch = session_.connection()->timeline();
  read.now = {Clock::time_point(now), now};
  const auto column = [&](std::size_t i) -> const auto& {
    return column_at(row, i, session_.shown());
  };
  read.is_watched = column(lock_column::is_watched) == "t";
  if (!column(lock_column::version)) return read;
  if (!number_at(row, lock_column::version)) {
    throw Failure::unreachable(session_.shown() + ": no version in the reply");
  }
  read.version = *column(lock_column::version);
  const bool is_newer =
      number_at(row, lock_column::format).value_or(0) > record::greatest_state_format;
  auto state = is_newer
                   ? std::nullopt
                   : record::state_from_json(column(lock_column::state).value_or(""));
  auto runs = record::runs_from_json(column(lock_column::runs).value_or("[]"));
  const auto refused = number_at(row, lock_column::refused).value_or(-1);
  if (!state || !runs || refused < 0) throw session_.unreadable("lock", lock, is_newer);
  read.state = std::move(*state);
  read.state.runs = std::move(*runs);
  read.state.refused = static_cast<std::uint64_t>(refused);
  return read;
}

// The clock is read by the last statement, behind the lock of the row: within the same
// one it would be the time before that lock was waited for.
asio::awaitable<PgRows::Snapshot> PgRows::read(const LockName& lock, Access access,
                                               Call call) {
  const bool is_exclusive = access == Access::exclusive;
  session_.connection()->introduce("dlock " + lock.name);
  Batch batch;
  if (is_exclusive) {
    batch = begin_exclusive(call.until);
    batch.push_back(to_hold_row(session_.schema(), lock));
  }
  batch.push_back(to_read(session_.schema(), lock));
  // The reading tells whether there is a watcher by now. If not, there was none.
  auto& due = session_.untold();
  const bool is_told = !is_exclusive && due && due->lock.name_space == lock.name_space;
  auto untold = is_told ? std::exchange(due, std::nullopt) : std::nullopt;
  const auto sent_at = Clock::now();
  const auto results = co_await session_.exchange(alone(std::move(batch)), call);
  std::optional<Failure> failure;
  try {
    auto read = snapshot_from(lock, row_at(results.back(), 0, session_.shown()), sent_at);
    if (!read.version.empty() && lost_row_ == lock) lost_row_.reset();
    if (untold && read.is_watched) {
      due = std::move(untold);
      co_await session_.exchange({}, call);  // only what is told
    }
    co_return read;
  } catch (const Failure& error) {
    failure = error;
  }
  if (is_exclusive) co_await leave(call.wakeup);
  throw *failure;
}

// Each page has the time of a step.
asio::awaitable<void> PgRows::read_all(const std::string& name_space, bool with_runs,
                                       const Taken& take, Call call) {
  left_out_.clear();
  std::string last;
  std::size_t count = 0;
  for (bool has_more = true; has_more && count < most_locks;
       call.until = later(Clock::now(), timeout())) {
    auto page = alone(to_read_page(session_.schema(), name_space, last, with_runs));
    const auto sent_at = Clock::now();
    const auto results = co_await session_.exchange(std::move(page), call);
    has_more = false;
    for (const auto& row : results.at(0).rows) {
      const auto column = [&](std::size_t i) -> const auto& {
        return column_at(row, i, session_.shown());
      };
      const LockName lock{name_space, column(lock_column::name).value_or("")};
      if (lock.name <= last) {
        throw Failure::unreachable(session_.shown() + ": pages without an end");
      }
      has_more = column(lock_column::has_more) == "t";
      last = lock.name;
      ++count;
      try {
        take(lock, snapshot_from(lock, row, sent_at));
      } catch (const Failure& failure) {
        left_out_.push_back(failure);
      }
      if (call.is_over()) throw net::Timeout(session_.shown() + " has too much to read");
    }
  }
}

// Statements of a step that writes, and where the result of its change is.
struct PgRows::Writing {
  std::vector<Batch> batches;  // the first one with the change,
  std::size_t change = 0;      // which is this statement of it
  bool records = false;        // the events, with the change
  bool listens = false;        // from now on
  bool asks = false;           // whether there is a watcher: the last statement
  bool asks_later = false;     // with what is sent next
  bool rehearses = false;      // the reading when it is woken: the last statement
};

PgRows::Writing PgRows::writing_of(const LockName& lock, const Snapshot& read,
                                   const Change& change, const std::vector<Event>& events,
                                   Clock::time_point until) const {
  const auto& schema = session_.schema();
  Writing writing;
  Batch step;
  step.push_back(change.gives_a_right ? durably(until) : unimportantly(until));
  // The server registers who listens before others can see what the same transaction has
  // written, so it is not woken before.
  writing.listens =
      change.sleeper && !waking_.polls() && !waking_.listens(*change.sleeper);
  if (writing.listens) {
    for (auto& statement : waking_.to_listen(*change.sleeper))
      step.push_back(std::move(statement));
  }
  writing.change = step.size();
  writing.records = read.is_watched && !events.empty();
  auto write = to_write(schema, lock, read, change,
                        writing.records ? events : std::vector<Event>());
  if (!write) {
    throw Failure::exhausted(session_.shown() + ": too many holders of the lock " +
                             printable_name(lock.name));
  }
  step.push_back(std::move(*write));
  if (session_.is_exclusive()) {
    step.push_back({"COMMIT", {}});
  } else {
    const auto size = step.size();
    step = writable(std::move(step), *session_.connection());
    if (step.size() != size) ++writing.change;  // behind BEGIN
  }
  writing.batches.push_back(std::move(step));
  // In a separate transaction: a commit with notifications holds a lock of the whole
  // server, even while it waits for a standby.
  auto after = to_wake(change.wake, change.in_front);
  if (writing.records) after.push_back(to_hint(schema, lock.name_space));
  // Behind the commit: whoever begins to watch before it has a row by then. Who holds or
  // waits does something else soon, and the question can be a part of that.
  const bool is_untold = !events.empty() && !read.is_watched;
  writing.asks_later =
      is_untold && !waking_.polls() && (change.sleeper || is_attached_grant(change));
  writing.asks = is_untold && !writing.asks_later;
  // Those who are woken need not wait until it is answered.
  if (!after.empty()) writing.batches.push_back(std::move(after));
  if (writing.asks) {
    writing.batches.push_back(Batch(1, watcher_question(schema, lock.name_space)));
  }
  // The server then knows the statement, and how to execute it, when every moment counts.
  writing.rehearses = writing.listens && session_.connection()->keeps_statements();
  if (writing.rehearses) {
    writing.batches.push_back(Batch(1, to_read(schema, lock)));
    writing.batches.back().front().may_fail = true;
  }
  return writing;
}

Failure PgRows::dropped_write() const {
  return Failure::misconfigured(session_.shown() +
                                ": a trigger, a rule or a policy of the table " +
                                session_.schema() + ".lock drops what dlock writes");
}

asio::awaitable<bool> PgRows::write(const LockName& lock, const Snapshot& read,
                                    const Change& change, Call call) {
  const bool was_exclusive = session_.is_exclusive();
  if (change.gives_a_right) session_.connection()->require_replicas();
  const auto events = stepped::events_of(lock, read, change);
  auto writing = writing_of(lock, read, change, events, call.until);
  std::optional<std::vector<Result>> results;
  try {
    if (was_exclusive) {
      results = co_await session_.go_on(std::move(writing.batches), call);
    } else {
      results = co_await session_.exchange(std::move(writing.batches), call);
    }
  } catch (const SqlError& error) {
    // Under exclusive access another isolation level and a right to write are set.
    // What comes after the write says nothing about it.
    if (is_read_only(error)) session_.connection()->note_read_only();
    const bool can_repeat =
        error.batch() == 0 &&
        (is_conflict(error) || (is_read_only(error) && !was_exclusive));
    if (!can_repeat) throw;
  } catch (const Failure& failure) {
    if (change.gives_a_right) session_.end_wait_after(failure);
    throw;
  }
  if (!results) co_return false;
  const bool is_new = read.version.empty();
  const auto& changed = results->at(writing.change);
  if (!is_of_write(changed, is_new, writing.records)) {
    throw Failure::unreachable(session_.shown() + " replied to something else");
  }
  if (writing.listens) waking_.note_listening(*change.sleeper);
  if (changed.rows.empty()) {
    // No other step could change the row; or if there is none, another step has made it,
    // so the next reading finds it.
    if (is_new ? lost_row_ == lock : was_exclusive) throw dropped_write();
    if (is_new) lost_row_ = lock;
    co_return false;
  }
  if (change.gives_a_right) {
    session_.connection()->require_replicas();
    session_.require_confirmation(*results);
  }
  const bool is_unwatched = writing.rehearses && tells_no_watcher(results->back());
  if (writing.asks_later && !is_unwatched) {
    const auto passed = std::chrono::ceil<WallTime>(Clock::now() - read.read_at);
    session_.untold() = {lock, events, read.now.wall + passed};
  }
  if (writing.asks && says_yes(results->back())) {
    auto told =
        bookkeeping(to_tell(session_.schema(), lock, events), *session_.connection());
    co_await session_.post(std::move(told), call.wakeup);
  }
  if (change.cause.released_by && random_up_to(releases_per_sweep - 1) == 0) {
    co_await session_.sweep("lock", call.wakeup);
  }
  co_return true;
}

asio::awaitable<void> PgRows::count_refused(LockName lock, Wakeup& wakeup) {
  auto batch =
      bookkeeping({to_count_refused(session_.schema(), lock)}, *session_.connection());
  co_await session_.post(std::move(batch), wakeup);
}

NewWatchSession PgRows::watch(const Watched& watched, Wakeup& wakeup) {
  return watches(context_, session_.connection()->hosts(), watched, wakeup);
}

asio::awaitable<std::vector<LockName>> PgRows::overdue(std::string name_space,
                                                       Call call) {
  auto question = alone(to_list_overdue(session_.schema(), name_space));
  const auto results = co_await session_.exchange(std::move(question), call);
  std::vector<LockName> locks;
  for (const auto& row : results.at(0).rows) {
    locks.push_back({name_space, column_at(row, 0, session_.shown()).value_or("")});
  }
  co_return locks;
}

}  // namespace dlock::postgres
