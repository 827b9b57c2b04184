// Reports when a socket can be read or written.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <memory>

#include "loop/wakeup.hpp"

namespace dlock::net {

// Watches a socket owned by the caller, who must destroy this object before closing it.
// An event only sets a flag and notifies, and does nothing after this object is
// destroyed, even if the event was already queued.
class Readiness {
 public:
  enum class For { reading, writing };

  Readiness(asio::io_context& context, int fd);
  ~Readiness();
  Readiness(const Readiness&) = delete;
  Readiness& operator=(const Readiness&) = delete;

  // Requests a notification when the socket is ready for `what`. Replaces an earlier
  // request that is still pending.
  void ask(For what, Wakeup& wakeup);

  // Whether the socket has become ready since the request.
  bool came(For what) const;

  class Question;

 private:
  struct Watch;
  std::shared_ptr<Watch> watch_;
};

// Requests a notification and cancels the request when destroyed, so that no destroyed
// `wakeup` is notified. May outlive the Readiness.
class Readiness::Question {
 public:
  Question(Readiness& readiness, For what, Wakeup& wakeup);
  ~Question();
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

 private:
  std::weak_ptr<Watch> watch_;
  For what_;
  Wakeup* wakeup_;
};

// Whether the socket is ready at once, or within a millisecond, the longest that a server
// on this machine takes. This costs one system call; the event loop needs four.
bool is_ready_soon(int fd, Readiness::For what);

struct Progress {
  enum class State { done, wants_to_read, wants_to_write, failed };

  State state;
  std::size_t size = 0;  // bytes read (0: closed by the peer) or written
  int error = 0;         // errno, if it failed

  Readiness::For awaited() const {
    return state == State::wants_to_read ? Readiness::For::reading
                                         : Readiness::For::writing;
  }
};

}  // namespace dlock::net
