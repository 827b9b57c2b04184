// Calls a function when a descriptor becomes readable.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>

#include "util/fd.hpp"

namespace dlock {

// How long not to listen after a call; see Readable.
using PauseAfterCall = std::function<std::chrono::milliseconds()>;

// Owns a descriptor and calls `happened` each time it becomes readable, until this object
// is destroyed; never after that, not even for an event that was already queued.
// `happened` has to read the data, and may destroy this object.
class Readable {
 public:
  // Where others decide how often the descriptor is readable, `pause` keeps them from
  // keeping us busy: it is asked after each call. Throws Failure (exhausted) if it cannot
  // be watched.
  Readable(boost::asio::io_context& context, Fd fd, std::function<void()> happened,
           PauseAfterCall pause = nullptr);
  ~Readable();
  Readable(const Readable&) = delete;
  Readable& operator=(const Readable&) = delete;

  int fd() const;

 private:
  struct Watch;
  static void listen(const std::shared_ptr<Watch>& watch);
  static void listen_again(const std::shared_ptr<Watch>& watch);

  std::shared_ptr<Watch> watch_;
};

}  // namespace dlock
