#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/show/pieces.hpp"
#include "lock/lease.hpp"
#include "lock/store.hpp"

namespace dlock {

// What `dlock list --prometheus` prints, in the text format of Prometheus (0.0.4):
// whether the store replies, and the metrics of each lock with the labels `name` and
// `namespace`. A sample that does not apply to a lock is left out, and so is a metric
// without samples. `histories` have the runs of which the durations are counted. If the
// store did not reply, `found` is null and only dlock_up is shown.
void show_metrics(const std::string& name_space, const std::vector<LockInfo>* found,
                  const std::vector<LockHistory>& histories, const ShowText& show);

// The metric that says that some locks could not be read; absent otherwise.
std::string incomplete_metric(const std::string& name_space);

}  // namespace dlock
