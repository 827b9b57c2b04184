// dlock status and dlock list: what a store knows of locks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/args/options.hpp"
#include "lock/lease.hpp"

namespace dlock {

// Returns the locks that `options` select, in the order that they ask for. With --live,
// held locks come first, then locks with waiters, because the window may be too small for
// all of them.
std::vector<LockInfo> selected(std::vector<LockInfo> locks, const ListOptions& options);

// What `dlock list --prometheus` prints, in the text format of Prometheus (0.0.4):
// whether the store replies, and the metrics of each lock with the labels `name` and
// `namespace`. A sample that does not apply to a lock is left out, and so is a metric
// without samples. If the store did not reply, `found` is empty and only dlock_up is
// printed.
std::string metrics_text(const std::string& name_space,
                         const std::optional<std::vector<LockInfo>>& found);

}  // namespace dlock
