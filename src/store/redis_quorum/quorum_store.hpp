// Locks on a quorum of independent servers.
//
// Each server runs the scripts of the single-server store and has one vote. tally.hpp and
// candidacy.hpp decide on the votes; the code here sends requests to all servers at once.
#pragma once

#include "store/store_url.hpp"

namespace dlock::redis_quorum {

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

}  // namespace dlock::redis_quorum
