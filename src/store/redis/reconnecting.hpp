// For how long, and after which pauses, a connection that failed is tried again within
// one operation.
#pragma once

#include "util/clock.hpp"
#include "util/failure.hpp"

namespace dlock::redis {

// For how long from the first attempt, if no other server can take its place; zero for a
// failure that is not of the connection, or that will not pass. `timeout` is the budget
// of the operation.
//
// A server that is there but has no room gets all of it: room is made as soon as another
// client leaves. One that does not listen gets a quarter: that is enough for a restart of
// the process, and somebody who waits for the message "connection refused" waits half a
// second and not two.
milliseconds patience_with(const Failure& failure, milliseconds timeout);

// The pauses between attempts. At random, because the clients that a server refuses have
// usually come at the same moment.
class Backoff {
 public:
  milliseconds next();

 private:
  milliseconds longest_{20};
};

}  // namespace dlock::redis
