#pragma once

#include <boost/asio/io_context.hpp>

namespace dlock {

// The event loop of one thread.
class EventLoop : public boost::asio::io_context {
 public:
  // Throws Failure (exhausted) if a call that Asio needs is refused, as a filter
  // (seccomp) may: Asio does not look at whether these calls succeed, and would wait for
  // ever, or spin, after a command was started.
  EventLoop();
};

}  // namespace dlock
