// The statements about the rows of locks.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lock/history.hpp"
#include "store/postgres/pg_wire.hpp"
#include "store/stepped/state_store.hpp"

namespace dlock::postgres {

// The columns of to_read() and of to_read_page(), which alone has the last two.
namespace lock_column {
enum : std::size_t {
  version,
  format,
  state,
  runs,
  refused,
  clock,
  is_watched,
  name,
  has_more
};
}

// One row, even if the lock has none.
Statement to_read(const std::string& schema, const LockName& lock);

// The row of a lock, for no other step to change it in this transaction.
Statement to_hold_row(const std::string& schema, const LockName& lock);

// Rows behind this name, sorted, and whether there are more behind them. A page is
// limited by its rows, and by their size, but has one row at least.
Statement to_read_page(const std::string& schema, const std::string& name_space,
                       const std::string& behind, bool with_runs);

// Replaces what was read, if no other step has done so, and records the events within the
// same statement: in the order of the lock's steps. Has a row if it was done. Nothing if
// there are more holders than a row may have.
std::optional<Statement> to_write(const std::string& schema, const LockName& lock,
                                  const stepped::StateStore::Snapshot& read,
                                  const stepped::StateStore::Change& change,
                                  const std::vector<Event>& recorded);

// Whether this is the result of to_write(), by its tag.
bool is_of_write(const Result& result, bool is_new, bool records);

// Without the version, which a count must not change under others, and without the rest
// of the row, which is of a step that another one may have followed. It waits for no one.
Statement to_count_refused(const std::string& schema, const LockName& lock);

// The names of locks of which something is over.
Statement to_list_overdue(const std::string& schema, const std::string& name_space);

}  // namespace dlock::postgres
