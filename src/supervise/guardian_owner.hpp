// dlock as its guardian sees it: whether it lives, and messages from and to it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace dlock {

// Allocates nothing and never waits.
class GuardianOwner {
 public:
  // `channel`: a stream socket to dlock. `dlock`: its pid, the parent while it lives.
  GuardianOwner(int channel, pid_t dlock) : channel_(channel), dlock_(dlock) {}

  // Whether dlock lives. Its last messages can still be read after its end.
  bool lives() const;

  // The next message (see guardian_message); nothing if there is none now, or never again
  // because dlock is gone.
  std::optional<std::uint8_t> next_message();

  // Whether dlock is gone and its last message was read.
  bool is_gone() const { return is_gone_; }

  // Wakes dlock, so that it reads the page. If that fails, the end of this process does.
  void notify() const;

  // Becomes readable when there is a message or dlock is gone; -1 once is_gone().
  int descriptor() const { return is_gone_ ? -1 : channel_; }

 private:
  int channel_;
  pid_t dlock_;
  bool is_gone_ = false;
};

}  // namespace dlock
