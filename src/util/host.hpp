#pragma once

#include <string>

namespace dlock {

// The name of this machine when it was first asked for; empty if it has no name.
const std::string& host_name();

}  // namespace dlock
