// The store for locks on PostgreSQL.
#pragma once

#include "store/store_url.hpp"

namespace dlock::postgres {

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

}  // namespace dlock::postgres
