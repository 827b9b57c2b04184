// Calendar periods in a time zone: the window of --dedupe may be one.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "cli/args/options.hpp"

namespace dlock {

enum class Period { hour, day, week, month };

// Seconds since the epoch, and what local time is ahead of UTC at that moment.
using UnixTime = std::chrono::seconds;
using UtcOffset = std::function<std::chrono::seconds(UnixTime)>;

// When the period that contains `now` began, in the time zone with these offsets. A day
// (week, month) begins when its date is first reached, be it at midnight, later because
// clocks go forward over midnight, or earlier because they go back over it. A week begins
// on Monday. An hour is an hour on the clock: one that is repeated when clocks go back is
// two periods, and a change of the clock begins one.
UnixTime begin_of(Period period, UnixTime now, const UtcOffset& offset);

// As RunInfo::period; empty for a span.
std::string recorded_period(const DedupeWindow& window);

// Whether the text begins with the name of a period, as "day" and "day@Nowhere" do.
bool is_period(const std::string& text);

// The window of hour, day, week or month, with or without @ZONE: that which is current
// now in the zone of the time zone database, or in that of the caller (TZ,
// /etc/localtime). Throws UsageError.
DedupeWindow current_period(const std::string& text);

}  // namespace dlock
