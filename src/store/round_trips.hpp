// Which leases a server is fast enough for, by its round-trip times.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lock/finding.hpp"
#include "util/clock.hpp"

namespace dlock {

// Nothing if the list is empty.
std::optional<std::chrono::microseconds> median_of(
    std::vector<std::chrono::nanoseconds> round_trips);

// How long one operation on the store may have to wait for replies.
milliseconds needed_budget(std::chrono::microseconds round_trip, int trips);

// The shortest lease that leaves this budget for an operation, by the rules of
// LeaseTiming.
milliseconds smallest_ttl_for(milliseconds budget);

// The shortest lease with which a run survives a failover of this length that begins just
// before a renewal is due.
milliseconds smallest_ttl_to_outlive(milliseconds failover);

// The finding of dlock doctor on a failover that takes this long: "DETECTED a --ttl
// of 6.0s or more survives WHAT".
Finding failover_finding(milliseconds failover, const std::string& detected,
                         const std::string& what, std::string advice);

// The finding of dlock doctor; nothing if there are no round trips.
std::optional<Finding> round_trip_finding(
    const std::vector<std::chrono::nanoseconds>& round_trips, int trips_to_renew);

}  // namespace dlock
