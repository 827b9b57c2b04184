// Tells when a socket can be read or written.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>

#include "lock/wakeup.hpp"

namespace dlock::net {

// Watches a socket that belongs to somebody else, who must destroy this object before
// closing it. All that happens on an event is a note and a notification, and nothing
// after this object is gone, not even for an event that was already on its way.
class Readiness {
 public:
  enum class For { reading, writing };

  Readiness(asio::io_context& context, int fd);
  ~Readiness();
  Readiness(const Readiness&) = delete;
  Readiness& operator=(const Readiness&) = delete;

  // Asks for a notification once the socket is ready `what` is for; in the place of an
  // earlier question that is not answered yet.
  void ask(For what, Wakeup& wakeup);

  // Whether it came since it was asked for.
  bool came(For what) const;

  class Question;

 private:
  struct Watch;
  std::shared_ptr<Watch> watch_;
};

// Asks, and asks no more when it goes: no `wakeup` that is gone by then is notified. It
// may go later than what it has asked.
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

// Whether the socket is ready at once, or within the millisecond that a server on this
// machine takes at most. Looking costs one system call, where the event loop takes four
// until it knows.
bool is_ready_soon(int fd, Readiness::For what);

}  // namespace dlock::net
