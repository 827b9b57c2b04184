// How one process wakes another: it sends a datagram to the other's unix socket.
#pragma once

#include <optional>
#include <string>

#include "loop/readable.hpp"
#include "loop/wakeup.hpp"
#include "store/directory.hpp"
#include "store/local/names.hpp"

namespace dlock::local {

// The socket of a waiter, which exists in the store's directory while it waits. Any
// datagram means "ask again".
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

// The session whose socket has this file name; nothing for other files.
std::optional<Session> session_of_wake_socket(const std::string& name);

// Wakes other processes.
class Waker {
 public:
  // Opens its socket in advance, so that wake() is fast.
  void prepare();

  // Closes its socket; false if it had none.
  bool let_go();

  // Wakes the waiter of `session`. It is only a hint, so failures are ignored: a waiter
  // that is not reached asks again by itself.
  void wake(const Directory& directory, Session session);

 private:
  Fd socket_;
};

// Removes the socket of a dead waiter.
void remove_wake_socket(const Directory& directory, Session session);

}  // namespace dlock::local
