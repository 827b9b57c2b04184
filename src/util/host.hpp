#pragma once

#include <string>

namespace dlock {

// What this machine is called, or was when it was first asked for; empty if it has no
// name.
const std::string& host_name();

}  // namespace dlock
