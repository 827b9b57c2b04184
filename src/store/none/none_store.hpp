// No store: grants everything, remembers nothing. For development, and for switching
// locking off without editing a crontab.
#pragma once

#include "store/store_url.hpp"

namespace dlock::none {

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

}  // namespace dlock::none
