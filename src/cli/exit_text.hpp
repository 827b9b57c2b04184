// What each exit status means, for those who read --help.
#pragma once

#include <string_view>
#include <vector>

#include "cli/exit_status.hpp"
#include "cli/verb.hpp"

namespace dlock {

struct ExitText {
  ExitStatus status;
  std::string_view text;
};

// Every status that dlock itself can end with for this verb, the smallest first. The
// command's own, and ends by a signal, are not among them.
std::vector<ExitText> exit_texts(Verb verb);

// Whether the verb runs a command, whose exit status it passes on.
bool passes_status_on(Verb verb);

}  // namespace dlock
