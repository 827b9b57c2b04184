// Priorities of lines for the systemd journal.
#pragma once

#include <string>
#include <string_view>

namespace dlock {

// The values are those of syslog(3), as in sd-daemon(3).
enum class Priority { error = 3, warning = 4, info = 6 };

// Whether JOURNAL_STREAM (systemd.exec(5)) names this file: "DEVICE:INODE", both decimal.
// False for any other text: with a wrong value, lines are plain.
bool names_stream(std::string_view variable, unsigned long long device,
                  unsigned long long inode);

// The prefix of a line of this priority: "<3>" where standard error is a stream of the
// journal, which removes it again, and nothing everywhere else.
std::string line_start(Priority priority);

}  // namespace dlock
