#include "store/postgres/pg_states.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>

#include "net/budget.hpp"
#include "record/states.hpp"
#include "store/postgres/pg_errors.hpp"
#include "store/postgres/pg_news.hpp"
#include "store/postgres/pg_schema.hpp"
#include "util/bits.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

// For a request to end what the server is doing.
constexpr milliseconds cancel_patience{2000};

// Of what is read at once. A state is written with 900,000 bytes at most, and not
// read with more than 1 MiB.
constexpr std::int64_t page_bytes = 4 << 20;
constexpr std::int64_t page_rows = 1000;

// The state and the runs of a lock together; with the rest it is a message that is read.
constexpr std::int64_t longest_row = 1'000'000;

// Of all pages: a server that repeats them without end is not read for ever.
constexpr std::size_t most_locks = 5'000'000;

std::string text_of(std::int64_t number) { return std::to_string(number); }

std::int64_t left_until(Clock::time_point until) {
  const auto left = std::chrono::floor<milliseconds>(until - Clock::now()).count();
  return std::clamp<std::int64_t>(left, 1, 1'000'000'000);
}

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

// There was none when the lock was read. It does not renew its row within seconds, so the
// row says when it began.
Statement PgStates::watcher_question(const std::string& name_space,
                                     std::optional<WallTime> until) const {
  if (!until) return {"SELECT " + is_watched(), {name_space}, true};
  return {"SELECT EXISTS (SELECT 1 FROM " + table("watcher") +
              " w WHERE w.namespace OPERATOR(pg_catalog.=) $1 AND w.until "
              "OPERATOR(pg_catalog.<) pg_catalog.to_timestamp($2::pg_catalog.float8))",
          {name_space, seconds_text(*until + watcher_lasts)},
          true};
}

Failure PgStates::unreadable(std::string_view table, const LockName& name,
                             bool is_newer) const {
  const bool is_lock = table == "lock";
  auto text =
      shown_ + (is_lock ? ": the lock " : ": the limit ") + printable_name(name.name);
  if (is_newer) {
    text += " was written by a newer dlock: upgrade this one";
  } else {
    text += " is damaged: another program has written to its row: ";
    text += is_lock ? "delete the row from " + connection_->target().schema + ".lock"
                    : "remove it with `dlock limit --reset`";
  }
  return Failure(Failure::Kind::misconfigured, std::move(text));
}

// A role, a database or the options of a URL may have other settings. That a commit waits
// for its standby no longer is only a warning, which client_min_messages can hide.
Statement PgStates::durably(Clock::time_point until) const {
  return {
      "SELECT pg_catalog.set_config('synchronous_commit', CASE WHEN "
      "pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) "
      "'remote_apply' THEN 'remote_apply' ELSE 'on' END, true), "
      "pg_catalog.set_config('client_min_messages', 'warning', true), "
      "pg_catalog.set_config('lock_timeout', $1, true)",
      {text_of(left_until(until))}};
}

Batch PgStates::begin_exclusive(Clock::time_point until) const {
  const auto left = left_until(until);
  Batch batch;
  batch.push_back({begin_to_write, {}});
  // Whoever stops in here keeps others from the row for a second at most.
  batch.push_back(
      {"SELECT pg_catalog.set_config('lock_timeout', $1, true), "
       "pg_catalog.set_config('idle_in_transaction_session_timeout', $2, true)",
       {text_of(left), text_of(std::clamp<std::int64_t>(left / 2, 1, 1000))}});
  return batch;
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
  const auto now = time_at(row, 5, shown_);
  Snapshot read;
  read.sent_at = sent_at;
  read.read_at = Clock::now();
  read.epoch = connection_->timeline();
  read.now = {Clock::time_point(now), now};
  const auto column = [&](std::size_t i) -> const auto& {
    return column_at(row, i, shown_);
  };
  read.is_watched = column(6) == "t";
  is_pooled_ = connection_->is_pooled();
  if (!column(0)) return read;
  if (!number_at(row, 0)) {
    throw Failure(Failure::Kind::unreachable, shown_ + ": no version in the reply");
  }
  read.version = *column(0);
  const bool is_newer = number_at(row, 1).value_or(0) > record::greatest_state_format;
  auto state = is_newer ? std::nullopt : record::state_from_json(column(2).value_or(""));
  auto runs = record::runs_from_json(column(3).value_or("[]"));
  const auto refused = number_at(row, 4).value_or(-1);
  if (!state || !runs || refused < 0) throw unreadable("lock", lock, is_newer);
  read.state = std::move(*state);
  read.state.runs = std::move(*runs);
  read.state.refused = static_cast<std::uint64_t>(refused);
  return read;
}

// The columns that snapshot_from() expects. What others have made too long to be read is
// left out, so that such a row counts as damaged and no other one does.
std::string PgStates::columns(bool with_runs) const {
  const std::string fits = "OPERATOR(pg_catalog.<=) " + std::to_string(longest_row);
  const std::string size_of_runs = "pg_catalog.octet_length(l.runs) ";
  return "l.version, l.format, CASE WHEN pg_catalog.octet_length(l.state) "
         "OPERATOR(pg_catalog.+) " +
         size_of_runs + fits + " THEN l.state END, " +
         (with_runs ? "CASE WHEN " + size_of_runs + fits + " THEN l.runs END" : "'[]'") +
         ", l.refused, " + std::string(clock_micros) + ", " + is_watched();
}

Statement PgStates::reading(const LockName& lock) const {
  return {"SELECT " + columns(true) + " FROM (SELECT 1) one LEFT JOIN " + table("lock") +
              " l ON " + key_is("l"),
          {lock.name_space, lock.name}};
}

// The clock is read by the last statement, behind the lock of the row: within the same
// one it would be the time before that lock was waited for.
asio::awaitable<PgStates::Snapshot> PgStates::read(const LockName& lock, Access access,
                                                   Call call) {
  const bool is_exclusive = access == Access::exclusive;
  connection_->introduce("dlock " + lock.name);
  Batch batch;
  if (is_exclusive) {
    batch = begin_exclusive(call.until);
    batch.push_back(
        {"SELECT 1 FROM " + table("lock") + " l WHERE " + key_is("l") + " FOR UPDATE",
         {lock.name_space, lock.name}});
  }
  batch.push_back(reading(lock));
  std::vector<Batch> batches(1, std::move(batch));
  is_exclusive_ = false;
  // The reading tells whether there is a watcher by now. If not, there was none.
  const bool tells =
      !is_exclusive && untold_ && untold_->lock.name_space == lock.name_space;
  auto untold = tells ? std::exchange(untold_, std::nullopt) : std::nullopt;
  const auto sent_at = Clock::now();
  const auto results = co_await exchange(std::move(batches), call);
  is_exclusive_ = is_exclusive;
  std::optional<Failure> failure;
  try {
    auto read = snapshot_from(lock, row_at(results.back(), 0, shown_), sent_at);
    if (!read.version.empty() && lost_row_ == lock) lost_row_.reset();
    if (untold && read.is_watched) {
      untold_ = std::move(untold);
      std::vector<Batch> nothing;  // but what is told
      co_await exchange(std::move(nothing), call);
    }
    co_return read;
  } catch (const Failure& error) {
    failure = error;
  }
  if (is_exclusive) co_await leave(call.wakeup);
  throw *failure;
}

Statement PgStates::unimportantly(Clock::time_point until) const {
  return {
      "SELECT pg_catalog.set_config('synchronous_commit', 'off', true), "
      "pg_catalog.set_config('lock_timeout', $1, true)",
      {text_of(left_until(until))}};
}

asio::awaitable<Result> PgStates::transact(Statement statement, Call call) {
  auto batch = begin_exclusive(call.until);
  batch.push_back(durably(call.until));
  const auto own = batch.size();
  batch.push_back(std::move(statement));
  batch.push_back({"COMMIT", {}});
  std::vector<Batch> batches(1, std::move(batch));
  // What is refused only afterwards would have been written nevertheless.
  const auto& replicas = connection_->hosts()->replicas;
  if (!connection_->is_open() && (replicas.all || replicas.count > 0)) {
    std::vector<Batch> nothing;
    co_await exchange(std::move(nothing), call);
  }
  if (connection_->is_open()) connection_->require_replicas();
  std::vector<Result> results;
  try {
    results = co_await exchange(std::move(batches), call);
  } catch (const Failure& failure) {
    end_wait_after(failure);
    throw;
  }
  connection_->require_replicas();
  require_confirmation(results);
  co_return std::move(results.at(own));
}

asio::awaitable<Result> PgStates::commit(Statement statement, Call call) {
  connection_->require_replicas();
  Batch batch;
  batch.push_back(durably(call.until));
  batch.push_back(std::move(statement));
  batch.push_back({"COMMIT", {}});
  std::vector<Batch> batches(1, std::move(batch));
  std::vector<Result> results;
  try {
    results = co_await go_on(std::move(batches), call);
  } catch (const Failure& failure) {
    end_wait_after(failure);
    throw;
  }
  connection_->require_replicas();
  require_confirmation(results);
  co_return std::move(results.at(1));
}

asio::awaitable<void> PgStates::leave(Wakeup& wakeup) {
  is_exclusive_ = false;
  if (!connection_->is_in_transaction()) co_return;
  Batch batch(1, Statement{"ROLLBACK", {}});
  co_await post(std::move(batch), wakeup);
}

// Rows behind this name, sorted, and whether there are more behind them. A page is
// limited by its rows, and by their size, but has one row at least.
Statement PgStates::page(const std::string& name_space, const std::string& behind,
                         bool with_runs) const {
  const auto size = [](const char* column) {
    return "pg_catalog.octet_length(l." + std::string(column) + ")";
  };
  return {"SELECT " + columns(with_runs) +
              ", l.name, l.size OPERATOR(pg_catalog.<) l.whole OR l.rows "
              "OPERATOR(pg_catalog.=) $4::pg_catalog.int8 FROM (SELECT p.*, "
              "pg_catalog.sum(p.bytes) OVER (ORDER BY p.name) AS size, "
              "pg_catalog.sum(p.bytes) OVER () AS whole, pg_catalog.count(*) OVER () AS "
              "rows FROM (SELECT l.*, " +
              size("state") + " OPERATOR(pg_catalog.+) " +
              (with_runs ? size("runs") : "0") + " AS bytes FROM " + table("lock") +
              " l WHERE l.namespace OPERATOR(pg_catalog.=) $1 AND l.name "
              "OPERATOR(pg_catalog.>) $2 ORDER BY l.name LIMIT $4::pg_catalog.int8) p) l "
              "WHERE l.size OPERATOR(pg_catalog.-) l.bytes OPERATOR(pg_catalog.<=) "
              "$3::pg_catalog.int8 ORDER BY l.name",
          {name_space, behind, std::to_string(page_bytes), std::to_string(page_rows)}};
}

// Each page has the time of a step.
asio::awaitable<std::vector<std::pair<LockName, PgStates::Snapshot>>> PgStates::read_all(
    const std::string& name_space, bool with_runs, Call call) {
  std::vector<std::pair<LockName, Snapshot>> all;
  left_out_.clear();
  std::string last;
  for (bool has_more = true; has_more && all.size() + left_out_.size() < most_locks;
       call.until = later(Clock::now(), timeout_)) {
    std::vector<Batch> batches(1, Batch(1, page(name_space, last, with_runs)));
    const auto sent_at = Clock::now();
    const auto results = co_await exchange(std::move(batches), call);
    has_more = false;
    for (const auto& row : results.at(0).rows) {
      const LockName lock{name_space, column_at(row, 7, shown_).value_or("")};
      if (lock.name <= last) {
        throw Failure(Failure::Kind::unreachable, shown_ + ": pages without an end");
      }
      has_more = column_at(row, 8, shown_) == "t";
      last = lock.name;
      try {
        all.emplace_back(lock, snapshot_from(lock, row, sent_at));
      } catch (const Failure& failure) {
        left_out_.push_back(failure);
      }
      if (call.is_over()) throw net::Timeout(shown_ + " has too much to read");
    }
  }
  co_return all;
}

// The commit of a grant that waits for a standby holds the row and its session until the
// standby is back, even if its client has exited.
void PgStates::end_wait_after(const Failure& failure) {
  const bool has_given_up = failure.kind() == Failure::Kind::interrupted ||
                            dynamic_cast<const net::Timeout*>(&failure) != nullptr;
  if (!has_given_up) return;
  const auto cancel = [](asio::io_context& context,
                         std::shared_ptr<PgPrimary> old) -> asio::awaitable<void> {
    Wakeup wakeup(context);
    try {
      co_await old->cancel(wakeup.within(cancel_patience));
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
