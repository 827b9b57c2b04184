// What a user is told while a verb waits: for a lock, for a turn, or for a store that
// cannot be reached.
#pragma once

#include <functional>
#include <string>

#include "cli/speaker.hpp"
#include "lock/clock.hpp"
#include "util/failure.hpp"

namespace dlock {

// On a terminal one line that changes with what is waited for, and that is gone when this
// is. With --verbose, on a terminal or not, a line when the wait begins, when the store
// is lost or found during it, and once a minute.
class WaitNotice {
 public:
  // The wait ends at `until`, which the line counts down to; max(): never. The speaker
  // has to outlive this.
  WaitNotice(Speaker& speaker, Clock::time_point until)
      : speaker_(speaker), until_(until) {}
  ~WaitNotice() { speaker_.live(""); }
  WaitNotice(const WaitNotice&) = delete;
  WaitNotice& operator=(const WaitNotice&) = delete;

  // What is waited for, in at most so many columns if it can be said in so few.
  using Text = std::function<std::string(std::size_t columns)>;

  // Says what is waited for. Returns for how long that is good; max() where nobody reads
  // it.
  milliseconds waiting(const Text& text);

  // Says why the store cannot be reached.
  void store_absent(const Failure& failure);

 private:
  enum class For { nothing, turn, store };

  milliseconds say(For what, const Text& text);
  std::string left() const;

  Speaker& speaker_;
  Clock::time_point until_;
  For said_ = For::nothing;      // with --verbose
  Clock::time_point say_again_;  // so late it is said again
};

}  // namespace dlock
