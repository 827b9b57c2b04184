// Cached values: a row in the table `value`, and the bytes in pieces in the table
// `piece`.
#pragma once

#include <memory>

#include "lock/store.hpp"
#include "store/postgres/pg_rows.hpp"

namespace dlock::postgres {

// `rows` must outlive it.
std::unique_ptr<ValueStore> value_store_of(PgRows& rows);

}  // namespace dlock::postgres
