// How one process wakes another: a datagram on the other's own unix socket.
#pragma once

#include <optional>
#include <string>

#include "lock/wakeup.hpp"
#include "store/local/directory.hpp"
#include "store/local/names.hpp"
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

// The session that the name of a file in the directory is a socket of; nothing for other
// files.
std::optional<Session> session_of_wake_socket(const std::string& name);

// What wakes others.
class Waker {
 public:
  // Makes what it needs now, and not when somebody waits to be woken.
  void prepare();

  // Gives up what it has made; whether there was anything.
  bool let_go();

  // Wakes the waiter of `session`. A hint, so no failure matters: who is not reached
  // looks again by itself.
  void wake(const Directory& directory, Session session);

 private:
  Fd socket_;
};

// Removes the socket that a dead waiter left.
void remove_wake_socket(const Directory& directory, Session session);

}  // namespace dlock::local
