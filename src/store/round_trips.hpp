// What the time that a server takes to answer means for the leases that it is good for.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "lock/clock.hpp"
#include "lock/finding.hpp"

namespace dlock {

// Nothing if there was no round trip.
std::optional<std::chrono::microseconds> median_of(
    std::vector<std::chrono::nanoseconds> round_trips);

// What one operation on the store may have to wait for answers.
milliseconds needed_budget(std::chrono::microseconds round_trip, int trips);

// The shortest lease that leaves so much for an operation, by the rules of LeaseTiming.
milliseconds smallest_ttl_for(milliseconds budget);

// The shortest lease on which a run outlives a failover that takes so long, and begins
// right before a renewal is due.
milliseconds smallest_ttl_to_outlive(milliseconds failover);

// What doctor says of them; nothing if there are none.
std::optional<Finding> round_trip_finding(
    const std::vector<std::chrono::nanoseconds>& round_trips, int trips_to_renew);

}  // namespace dlock
