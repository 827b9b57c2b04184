// The route to the member of a cluster that has the slot of a lock.
#pragma once

#include "store/store_url.hpp"

namespace dlock::redis_cluster {

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

}  // namespace dlock::redis_cluster
