#include "store/postgres/pg_transaction.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "store/postgres/pg_schema.hpp"

namespace dlock::postgres {
namespace {

std::int64_t left_until(Clock::time_point until) {
  const auto left = std::chrono::floor<milliseconds>(until - Clock::now()).count();
  return std::clamp<std::int64_t>(left, 1, 1'000'000'000);
}

}  // namespace

Batch begin_exclusive(Clock::time_point until) {
  const auto left = left_until(until);
  Batch batch;
  batch.push_back({begin_to_write, {}});
  batch.push_back(
      {"SELECT pg.set_config('lock_timeout', $1, true), "
       "pg.set_config('idle_in_transaction_session_timeout', $2, true)",
       {std::to_string(left),
        std::to_string(std::clamp<std::int64_t>(left / 2, 1, 1000))}});
  return batch;
}

// A role, a database or the options of a URL may have other settings. That a commit waits
// for its standby no longer is only a warning, which client_min_messages can hide.
Statement durably(Clock::time_point until) {
  return {
      "SELECT pg.set_config('synchronous_commit', CASE WHEN "
      "pg.current_setting('synchronous_commit') OP(=) 'remote_apply' THEN 'remote_apply' "
      "ELSE 'on' END, true), pg.set_config('client_min_messages', 'warning', true), "
      "pg.set_config('lock_timeout', $1, true)",
      {std::to_string(left_until(until))}};
}

Statement unimportantly(Clock::time_point until) {
  return {
      "SELECT pg.set_config('synchronous_commit', 'off', true), "
      "pg.set_config('lock_timeout', $1, true)",
      {std::to_string(left_until(until))}};
}

Batch writable(Batch batch, const PgPrimary& connection) {
  return connection.is_read_only() ? in_transaction(std::move(batch)) : batch;
}

Batch bookkeeping(Batch batch, const PgPrimary& connection) {
  batch.insert(batch.begin(), unimportantly(later(Clock::now(), bookkeeping_patience)));
  return writable(std::move(batch), connection);
}

}  // namespace dlock::postgres
