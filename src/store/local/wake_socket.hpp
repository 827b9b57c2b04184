// How one process wakes another: a datagram on the other's own unix socket.
#pragma once

#include "lock/wakeup.hpp"
#include "store/local/directory.hpp"
#include "store/local/state.hpp"
#include "util/readable.hpp"

namespace dlock::local {

// The socket of a waiter, in the store's directory, for as long as it waits. What
// arrives means nothing but "ask again".
class WakeSocket {
 public:
  // Throws Failure.
  WakeSocket(asio::io_context& context, const Directory& directory, Session session,
             Wakeup& wakeup);
  ~WakeSocket();

 private:
  const Directory& directory_;
  Session session_;
  Readable socket_;
};

// Wakes the waiter of `session`. A hint, so no failure matters: who is not reached
// looks again by itself.
void wake(const Directory& directory, Session session);

// Removes the socket that a dead waiter left.
void bury(const Directory& directory, Session session);

}  // namespace dlock::local
