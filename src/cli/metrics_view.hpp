// Locks as metrics, for monitoring.
#pragma once

#include <string>
#include <vector>

#include "lock/lease.hpp"

namespace dlock {

// What `dlock list --prometheus` prints: the text format of Prometheus (0.0.4), all of it
// gauges with the labels `name` and `namespace`. A sample that does not apply to a lock
// is left out, and a metric without samples too; so no locks are no text.
std::string metrics_text(const std::vector<LockInfo>& locks);

}  // namespace dlock
