// The version of the program. The build generates its definition (cmake/Version.cmake).
#pragma once

namespace dlock {

extern const char* const program_version;

}  // namespace dlock
