// Shows what a verb is waiting for: a lock, a turn, or a store that cannot be reached.
#pragma once

#include <functional>
#include <string>

#include "cli/terminal/speaker.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"

namespace dlock {

// On a terminal, one line that is updated while the verb waits and removed at the end.
// With --verbose, on a terminal or not, one line when the wait begins, when the store is
// lost or found again, and once a minute.
class WaitNotice {
 public:
  // The line counts down to `until`, when the wait ends; max() means never. The speaker
  // has to outlive this object.
  WaitNotice(Speaker& speaker, Clock::time_point until)
      : speaker_(speaker), until_(until) {}
  ~WaitNotice() { speaker_.live(""); }
  WaitNotice(const WaitNotice&) = delete;
  WaitNotice& operator=(const WaitNotice&) = delete;

  // Describes what is waited for, in at most `columns` if that is possible.
  using Text = std::function<std::string(std::size_t columns)>;

  // Shows what is waited for. Returns how long the text stays valid; max() if nobody sees
  // it.
  milliseconds waiting(const Text& text);

  // Shows why the store cannot be reached.
  void store_absent(const Failure& failure);

 private:
  enum class For { nothing, turn, store };

  milliseconds say(For what, const Text& text);
  std::string line_of(const Text& text) const;
  std::string left() const;

  Speaker& speaker_;
  Clock::time_point until_;
  For said_ = For::nothing;      // with --verbose
  Clock::time_point say_again_;  // when it is printed again
};

}  // namespace dlock
