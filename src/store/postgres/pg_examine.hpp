// Collects the facts about PostgreSQL servers that matter to locks (dlock doctor). It
// changes nothing there.
#pragma once

#include "store/store_url.hpp"

namespace dlock::postgres {

// As examine_store(). All servers of the URL are asked at the same time.
ExamineStore examine;

}  // namespace dlock::postgres
