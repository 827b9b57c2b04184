// How transactions begin, and what they wait for.
#pragma once

#include "store/postgres/pg_primary.hpp"
#include "store/postgres/pg_wire.hpp"
#include "util/clock.hpp"

namespace dlock::postgres {

// What is only counted, told or removed waits for others no longer than this.
constexpr milliseconds bookkeeping_patience{200};

// The beginning of a transaction that locks rows. Who stops in it keeps others from the
// rows for a second at most.
Batch begin_exclusive(Clock::time_point until);

// For the transaction of a statement behind it, which waits for rows until `until`: its
// commit is on disk, and on the standbys that the server waits for, before the answer.
Statement durably(Clock::time_point until);

// The same for what may be lost with a crash of the server.
Statement unimportantly(Clock::time_point until);

// The batch as a transaction that can write. An implicit one can, unless the role is
// read-only by default; after an error behind BEGIN the transaction must be rolled back,
// so it is not used without need.
Batch writable(Batch batch, const PgPrimary& connection);

// A batch of what is only counted, told or removed: it may be lost with a crash.
Batch bookkeeping(Batch batch, const PgPrimary& connection);

}  // namespace dlock::postgres
