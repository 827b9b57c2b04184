// Locks as metrics, for monitoring.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lock/lease.hpp"

namespace dlock {

// What `dlock list --prometheus` prints: the text format of Prometheus (0.0.4), all of it
// gauges: whether the store answers, and of each lock what has the labels `name` and
// `namespace`. A sample that does not apply to a lock is left out, and a metric without
// samples too.
// Of a store that does not answer there are no locks, and only that is told.
std::string metrics_text(const std::string& name_space,
                         const std::optional<std::vector<LockInfo>>& found);

}  // namespace dlock
