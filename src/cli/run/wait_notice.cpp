#include "cli/run/wait_notice.hpp"

#include <algorithm>

#include "util/text.hpp"
#include "util/width.hpp"

namespace dlock {
namespace {

constexpr milliseconds step_every = std::chrono::minutes(1);

}  // namespace

milliseconds WaitNotice::waiting(const Text& text) { return say(For::turn, text); }

void WaitNotice::store_absent(const Failure& failure) {
  const std::string reason = failure.what();
  const std::string then = "; trying again";
  say(For::store, [&](std::size_t columns) {
    return cut_to(reason, columns - std::min(columns, columns_of(then))) + then;
  });
}

milliseconds WaitNotice::say(For what, const Text& text) {
  const auto now = Clock::now();
  auto good_for = milliseconds::max();
  if (speaker_.is_verbose()) {
    if (what != said_ || now >= say_again_) {
      constexpr auto any_columns = std::string::npos;
      speaker_.live("");
      speaker_.step(text(any_columns) + left());
      said_ = what;
      say_again_ = now + step_every;
    }
    good_for = std::chrono::ceil<milliseconds>(say_again_ - now);
  }
  return speaker_.live(line_of(text)) ? std::min(good_for, live_for) : good_for;
}

// The text, shortened so that the time left behind it is always seen.
std::string WaitNotice::line_of(const Text& text) const {
  const auto columns = speaker_.live_columns();
  const auto end = left();
  if (end.empty()) return text(columns);
  constexpr std::size_t least_text = 10;
  const auto used = columns_of(end);
  if (columns < used + least_text) return end.substr(end.find_first_not_of("; "));
  return cut_to(text(columns - used), columns - used) + end;
}

// "; 4m58s left" or "; 300ms left", or nothing where the wait has no end.
std::string WaitNotice::left() const {
  if (until_ == Clock::time_point::max()) return "";
  const auto left = until_ - Clock::now();
  const milliseconds step(left < std::chrono::seconds(10) ? 100 : 1000);
  const auto steps = std::max<std::int64_t>((left + step - nanoseconds(1)) / step, 0);
  return "; " + for_people(steps * step) + " left";
}

}  // namespace dlock
