// Which boot of the machine this is.
#pragma once

#include <string>

namespace dlock::local {

// 36 characters. Throws Failure: misconfigured where the kernel does not say,
// exhausted where there is no descriptor left to ask.
std::string boot_id();

}  // namespace dlock::local
