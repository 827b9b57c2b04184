#pragma once

#include <string>

namespace dlock {

// A line for each library in the program, `NAME VERSION`, and the packages of the
// distribution that a static program was linked with, if the build knew them.
std::string linked_in();

}  // namespace dlock
