// What dlock says to people while it works: lines on standard error.
#pragma once

#include <string>

#include "cli/options.hpp"

namespace dlock {

// Lines of the form "dlock: NAME: message", for the systemd journal with their priority
// before that. The text has to be printable already. Where nobody reads them they are
// left out, and later said to have been: no deadline, signal or release waits for a
// reader.
class Speaker {
 public:
  Speaker(std::string name, bool quiet, bool verbose)
      : name_(std::move(name)), quiet_(quiet), verbose_(verbose) {}

  void error(const std::string& message) const;           // always
  void urgent_warning(const std::string& message) const;  // always
  void warning(const std::string& message) const;         // unless --quiet
  void step(const std::string& message) const;            // with --verbose
  bool is_verbose() const { return verbose_; }

  // One line on a terminal that the next call replaces, cut at its width; an empty one
  // takes it away. Nothing where standard error is no terminal, or with --quiet. Returns
  // whether it stands there.
  bool live(const std::string& message);

  // How many columns of such a message there is room for now.
  std::size_t live_columns() const;

 private:
  std::string live_start() const;

  std::string name_;
  bool quiet_;
  bool verbose_;
  std::size_t live_shown_ = 0;  // columns
};

// How long such a line may stand though things have changed.
constexpr milliseconds live_for{2000};

// Writes all of `text` to the descriptor; false if that is not possible.
bool write_text(int fd, std::string_view text);

// "cannot write to standard output: No space left on device"
std::string output_failure(int error_number);

// What the last error or warning said, with the name that it was about, whether anybody
// was to read it or not; empty if there was none.
const std::string& last_message();

// Whether print() has printed anything.
bool has_printed();

// Writes what a verb has to say to standard output. Throws Failure if that is not
// possible.
void print(const std::string& text);

// Whether to colour what goes to standard output: --color, then NO_COLOR, then whether
// it is a terminal that can.
bool use_color(Color wanted);

// How wide the terminal is that standard output is; 0 if it is none.
std::size_t columns_of_output();

// Whether TERM names a terminal that knows no control sequences, or none at all.
bool is_dumb_terminal();

}  // namespace dlock
