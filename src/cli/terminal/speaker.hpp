// Prints dlock's messages on standard error.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/args/options.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock {

// Prints lines of the form "dlock: NAME: message", with a priority prefix if standard
// error is the systemd journal. Messages must already be printable. If standard error is
// not read, lines are dropped and their number is reported later: no deadline, signal or
// release waits for a reader.
class Speaker {
 public:
  Speaker(std::string name, bool quiet, bool verbose)
      : name_(std::move(name)), quiet_(quiet), verbose_(verbose) {}

  void error(const std::string& message) const;           // always
  void urgent_warning(const std::string& message) const;  // always
  void warning(const std::string& message) const;         // unless --quiet
  void step(const std::string& message) const;            // with --verbose
  bool is_verbose() const { return verbose_; }

  // Shows one line on a terminal, cut at its width; the next call replaces it, and an
  // empty message removes it. Does nothing if standard error is not a terminal, or with
  // --quiet, and does not wait for a terminal that accepts nothing. Returns whether the
  // line is shown, or would be if the terminal accepted it.
  bool live(const std::string& message);

  // How many columns such a message can have now.
  std::size_t live_columns() const;

 private:
  std::string live_start() const;

  std::string name_;
  bool quiet_;
  bool verbose_;
  std::size_t live_shown_ = 0;  // columns
};

// How long such a line may stay unchanged while its subject changes.
constexpr milliseconds live_for{2000};

// Receives what a verb is waiting for, in one line.
using WaitListener = std::function<void(const std::string&)>;

// Shows what a verb is waiting for: a lock, a turn, or a store that cannot be reached.
// On a terminal, one line that is updated while the verb waits and removed at the end.
// With --verbose, on a terminal or not, one line when the wait begins, when the store is
// lost or found again, and once a minute. The listener, if any, is called each time, and
// at least every ten seconds.
class WaitNotice {
 public:
  // The line counts down to `until`, when the wait ends; max() means never. The speaker
  // has to outlive this object.
  WaitNotice(Speaker& speaker, Clock::time_point until, WaitListener listener = {})
      : speaker_(speaker), until_(until), listener_(std::move(listener)) {}
  ~WaitNotice() { speaker_.live(""); }
  WaitNotice(const WaitNotice&) = delete;
  WaitNotice& operator=(const WaitNotice&) = delete;

  // Describes what is waited for, in at most `columns` if that is possible.
  using Text = std::function<std::string(std::size_t columns)>;

  // Shows what is waited for. Returns how long the text stays valid; max() if it is not
  // visible.
  milliseconds waiting(const Text& text) { return say(For::turn, text); }

  // Shows why the store cannot be reached.
  void store_absent(const Failure& failure);

 private:
  enum class For { nothing, turn, store };

  milliseconds say(For what, const Text& text);
  std::string line_of(const Text& text) const;
  std::string left() const;

  Speaker& speaker_;
  Clock::time_point until_;
  WaitListener listener_;
  For said_ = For::nothing;      // with --verbose
  Clock::time_point say_again_;  // when it is printed again
};

// "cannot write to standard output: No space left on device"
std::string output_failure(int error_number);

// The last error or warning with the name it was about, whether or not it was printed;
// empty if there was none.
const std::string& last_message();

// From now on errors and warnings are only remembered, because the answer of this process
// is one line for a monitoring system (history --nagios).
void answer_as_plugin();
bool answers_as_plugin();

// "DLOCK OK - text", where nothing in the text begins the performance data.
std::string plugin_answer(std::string_view state, const std::string& text);

// Whether print() has printed anything.
bool has_printed();

// Prints a verb's output on standard output. Throws Failure if that is not possible.
void print(const std::string& text);

// Whether to color standard output: decided by --color, then NO_COLOR, then whether it is
// a terminal with colors.
bool use_color(Color wanted);

// The width of the terminal on standard output; 0 if it is not a terminal.
std::size_t columns_of_output();

// Whether TERM is unset or names a terminal without control sequences.
bool is_dumb_terminal();

// Returns what `work` returns. If it throws a Failure, throws one of the same kind whose
// message begins with `name`, in the form that Speaker uses for every other line.
template <typename Work>
auto about(const std::string& name, Work work) {
  try {
    return work();
  } catch (const Failure& failure) {
    throw Failure(failure.kind(), printable_name(name) + ": " + failure.what());
  }
}

}  // namespace dlock
