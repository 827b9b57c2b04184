// The file of --report.
#pragma once

#include <string>

#include "util/fd.hpp"

namespace dlock {

// It is opened before anything else happens, so that a file that cannot be written is an
// error before the command runs.
class ReportFile {
 public:
  // Opens the file. Throws Failure (misconfigured). An empty path means no report; "-" is
  // standard error.
  explicit ReportFile(const std::string& path);

  // Returns false if the line could not be written.
  bool write(const std::string& line);

 private:
  Fd file_;
  bool is_standard_error_ = false;
};

}  // namespace dlock
