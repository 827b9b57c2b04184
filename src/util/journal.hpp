// Standard error as the systemd journal reads it: which line is how bad.
#pragma once

#include <string>
#include <string_view>

namespace dlock {

// The numbers are those of syslog(3), which sd-daemon(3) takes over.
enum class Priority { error = 3, warning = 4, info = 6 };

// What JOURNAL_STREAM says of a file (systemd.exec(5)): "DEVICE:INODE", both decimal.
// False for any other text: who sets it wrongly gets plain lines.
bool names_stream(std::string_view variable, unsigned long long device,
                  unsigned long long inode);

// What a line of this priority begins with: "<3>" where standard error is a stream of
// the journal's, which takes it off again, and nothing everywhere else.
std::string line_start(Priority priority);

}  // namespace dlock
