// Explains each exit status for --help.
#pragma once

#include <string_view>
#include <vector>

#include "cli/args/exit_status.hpp"
#include "cli/args/verb.hpp"

namespace dlock {

struct ExitText {
  ExitStatus status;
  std::string_view text;
};

// Every status that dlock itself can exit with for this verb, in ascending order, without
// the command's own status and without deaths by signal.
std::vector<ExitText> exit_texts(Verb verb);

// Whether the verb runs a command and exits with the command's status.
bool passes_status_on(Verb verb);

}  // namespace dlock
