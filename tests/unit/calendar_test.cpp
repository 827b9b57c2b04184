// When a calendar period began (--dedupe day), and what --splay makes of two names.

#include "cli/args/calendar.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "cli/args/options.hpp"
#include "cli/args/values.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

UnixTime at(const std::string& text) {
  return std::chrono::duration_cast<seconds>(from_rfc3339(text + ":00.000Z").value());
}

// The changes of a zone near the moments below, as zdump(8) shows them.
struct Zone {
  minutes first;
  std::vector<std::pair<UnixTime, minutes>> changes;

  seconds offset(UnixTime moment) const {
    auto now = first;
    for (const auto& [from, then] : changes) {
      if (moment >= from) now = then;
    }
    return now;
  }
};

const std::map<std::string, Zone> zones{
    {"UTC", {minutes(0), {}}},
    {"Kathmandu", {minutes(345), {}}},
    {"Berlin",
     {minutes(60),
      {{at("2026-03-29T01:00"), minutes(120)}, {at("2026-10-25T01:00"), minutes(60)}}}},
    {"New York",
     {minutes(-300),
      {{at("2026-03-08T07:00"), minutes(-240)},
       {at("2026-11-01T06:00"), minutes(-300)}}}},
    {"Kolkata", {minutes(330), {}}},
    // Summer time all year except in Ramadan.
    {"Casablanca",
     {minutes(60),
      {{at("2026-02-15T02:00"), minutes(0)}, {at("2026-03-22T02:00"), minutes(60)}}}},
    {"Cairo",
     {minutes(120),
      {{at("2026-04-23T22:00"), minutes(180)}, {at("2026-10-29T21:00"), minutes(120)}}}},
    // Gave summer time up.
    {"Sao Paulo",
     {minutes(-120),
      {{at("2018-02-18T02:00"), minutes(-180)},
       {at("2018-11-04T03:00"), minutes(-120)},
       {at("2019-02-17T02:00"), minutes(-180)}}}},
    // Both clocks go forward at midnight, and back at midnight.
    {"Santiago",
     {minutes(-180),
      {{at("2026-04-05T03:00"), minutes(-240)},
       {at("2026-09-06T04:00"), minutes(-180)}}}},
    {"Beirut",
     {minutes(120),
      {{at("2026-03-28T22:00"), minutes(180)}, {at("2026-10-24T21:00"), minutes(120)}}}},
    // From one o'clock back to midnight.
    {"Havana",
     {minutes(-300),
      {{at("2026-03-08T05:00"), minutes(-240)},
       {at("2026-11-01T05:00"), minutes(-300)}}}},
    // By half an hour.
    {"Lord Howe",
     {minutes(660),
      {{at("2026-04-04T15:00"), minutes(630)}, {at("2026-10-03T15:30"), minutes(660)}}}},
    // Had no 30 December.
    {"Apia", {minutes(-600), {{at("2011-12-30T10:00"), minutes(840)}}}},
};

struct Case {
  const char* zone;
  Period period;
  const char* now;
  const char* began;
};

constexpr Case cases[] = {
    {"UTC", Period::hour, "2026-11-27T03:42", "2026-11-27T03:00"},
    {"UTC", Period::day, "2026-11-27T03:42", "2026-11-27T00:00"},
    {"UTC", Period::day, "2026-11-27T00:00", "2026-11-27T00:00"},
    {"UTC", Period::week, "2026-11-27T03:42", "2026-11-23T00:00"},
    {"UTC", Period::week, "2026-11-23T00:00", "2026-11-23T00:00"},
    {"UTC", Period::week, "2026-11-22T23:59", "2026-11-16T00:00"},
    {"UTC", Period::week, "2027-01-01T12:00", "2026-12-28T00:00"},
    {"UTC", Period::month, "2026-11-30T23:59", "2026-11-01T00:00"},
    {"UTC", Period::month, "2028-02-29T12:00", "2028-02-01T00:00"},
    {"UTC", Period::day, "1969-12-31T12:00", "1969-12-31T00:00"},
    {"Kathmandu", Period::hour, "2026-11-27T03:42", "2026-11-27T03:15"},
    {"Kathmandu", Period::day, "2026-11-27T18:14", "2026-11-26T18:15"},
    {"Kathmandu", Period::day, "2026-11-27T18:15", "2026-11-27T18:15"},
    // A day of 23 hours, and one of 25.
    {"Berlin", Period::day, "2026-03-29T21:59", "2026-03-28T23:00"},
    {"Berlin", Period::day, "2026-03-29T22:00", "2026-03-29T22:00"},
    {"Berlin", Period::day, "2026-10-25T22:59", "2026-10-24T22:00"},
    {"Berlin", Period::day, "2026-10-25T23:00", "2026-10-25T23:00"},
    {"Berlin", Period::week, "2026-03-29T12:00", "2026-03-22T23:00"},
    {"Berlin", Period::week, "2026-03-30T12:00", "2026-03-29T22:00"},
    {"Berlin", Period::month, "2026-03-31T12:00", "2026-02-28T23:00"},
    {"Berlin", Period::month, "2026-10-31T12:00", "2026-09-30T22:00"},
    // Two o'clock does not exist, and exists twice.
    {"Berlin", Period::hour, "2026-03-29T01:30", "2026-03-29T01:00"},
    {"Berlin", Period::hour, "2026-10-25T00:30", "2026-10-25T00:00"},
    {"Berlin", Period::hour, "2026-10-25T01:30", "2026-10-25T01:00"},
    {"New York", Period::day, "2026-03-09T03:59", "2026-03-08T05:00"},
    {"New York", Period::day, "2026-03-09T04:00", "2026-03-09T04:00"},
    {"New York", Period::day, "2026-11-02T04:59", "2026-11-01T04:00"},
    {"New York", Period::hour, "2026-11-01T05:59", "2026-11-01T05:00"},
    {"New York", Period::hour, "2026-11-01T06:01", "2026-11-01T06:00"},
    {"New York", Period::month, "2026-03-31T12:00", "2026-03-01T05:00"},
    {"New York", Period::week, "2026-11-01T12:00", "2026-10-26T04:00"},
    {"Kolkata", Period::day, "2026-11-27T18:29", "2026-11-26T18:30"},
    {"Kolkata", Period::hour, "2026-11-27T18:29", "2026-11-27T17:30"},
    {"Kolkata", Period::week, "2026-11-29T18:30", "2026-11-29T18:30"},
    {"Casablanca", Period::day, "2026-02-15T12:00", "2026-02-14T23:00"},
    {"Casablanca", Period::day, "2026-02-16T00:00", "2026-02-16T00:00"},
    {"Casablanca", Period::month, "2026-03-31T12:00", "2026-03-01T00:00"},
    {"Casablanca", Period::month, "2026-02-28T23:59", "2026-01-31T23:00"},
    {"Casablanca", Period::day, "2026-03-22T23:00", "2026-03-22T23:00"},
    // Midnight does not exist: the day begins at one o'clock.
    {"Santiago", Period::day, "2026-09-06T03:59", "2026-09-05T04:00"},
    {"Santiago", Period::day, "2026-09-06T04:00", "2026-09-06T04:00"},
    {"Santiago", Period::day, "2026-09-06T20:00", "2026-09-06T04:00"},
    {"Santiago", Period::hour, "2026-09-06T04:20", "2026-09-06T04:00"},
    {"Beirut", Period::day, "2026-03-29T12:00", "2026-03-28T22:00"},
    {"Beirut", Period::day, "2026-03-28T21:59", "2026-03-27T22:00"},
    {"Cairo", Period::day, "2026-04-24T12:00", "2026-04-23T22:00"},
    {"Cairo", Period::day, "2026-04-23T21:59", "2026-04-22T22:00"},
    {"Cairo", Period::hour, "2026-04-23T22:10", "2026-04-23T22:00"},
    {"Sao Paulo", Period::day, "2018-11-04T12:00", "2018-11-04T03:00"},
    {"Sao Paulo", Period::month, "2018-11-30T12:00", "2018-11-01T03:00"},
    {"Sao Paulo", Period::day, "2019-02-17T02:30", "2019-02-16T02:00"},
    {"Sao Paulo", Period::day, "2019-02-17T03:00", "2019-02-17T03:00"},
    // 23 o'clock is repeated, and belongs to the day before both times.
    {"Santiago", Period::day, "2026-04-05T03:30", "2026-04-04T03:00"},
    {"Santiago", Period::day, "2026-04-05T12:00", "2026-04-05T04:00"},
    {"Beirut", Period::day, "2026-10-24T21:30", "2026-10-23T21:00"},
    {"Cairo", Period::day, "2026-10-29T21:30", "2026-10-28T21:00"},
    {"Cairo", Period::day, "2026-10-30T12:00", "2026-10-29T22:00"},
    {"Beirut", Period::day, "2026-10-25T12:00", "2026-10-24T22:00"},
    // Midnight is repeated: the day begins at the first one.
    {"Havana", Period::day, "2026-11-01T05:30", "2026-11-01T04:00"},
    {"Havana", Period::month, "2026-11-20T12:00", "2026-11-01T04:00"},
    {"Havana", Period::hour, "2026-11-01T05:30", "2026-11-01T05:00"},
    // The change itself begins an hour that is not a whole one.
    {"Lord Howe", Period::hour, "2026-04-04T15:10", "2026-04-04T15:00"},
    {"Lord Howe", Period::hour, "2026-04-04T14:40", "2026-04-04T14:00"},
    {"Lord Howe", Period::hour, "2026-10-03T15:40", "2026-10-03T15:30"},
    {"Lord Howe", Period::day, "2026-04-05T12:00", "2026-04-04T13:00"},
    {"Apia", Period::day, "2011-12-30T09:59", "2011-12-29T10:00"},
    {"Apia", Period::day, "2011-12-30T12:00", "2011-12-30T10:00"},
    {"Apia", Period::week, "2011-12-31T12:00", "2011-12-26T10:00"},
};

TEST(CalendarPeriod, begins_when_its_date_or_hour_is_first_reached) {
  for (const auto& one : cases) {
    const auto& zone = zones.at(one.zone);
    const auto began = begin_of(one.period, at(one.now),
                                [&](UnixTime moment) { return zone.offset(moment); });

    EXPECT_EQ(rfc3339(began), std::string(one.began) + ":00.000Z")
        << one.zone << " at " << one.now;
  }
}

// In every zone, a period begins no later than now, contains its own begin, and the
// moment before belongs to another one.
TEST(CalendarPeriod, begins_where_the_one_before_ends) {
  for (const auto& [name, zone] : zones) {
    const auto offset = [&zone = zone](UnixTime moment) { return zone.offset(moment); };
    for (auto now = at("2026-03-01T00:07"); now < at("2026-11-05T00:00");
         now += minutes(11 * 60 + 7)) {
      for (const auto period : {Period::hour, Period::day, Period::week, Period::month}) {
        const auto began = begin_of(period, now, offset);

        ASSERT_LE(began, now) << name;
        ASSERT_EQ(began, begin_of(period, began, offset)) << name << rfc3339(now);
        ASSERT_LT(begin_of(period, began - seconds(1), offset), began) << name;
      }
    }
  }
}

// The caller's TZ while it lives.
class OwnZone {
 public:
  explicit OwnZone(const char* value) { ::setenv("TZ", value, 1); }
  ~OwnZone() { ::unsetenv("TZ"); }
};

std::string refusal_of(const std::string& text) {
  try {
    parsed_dedupe_window(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "not refused";
}

bool is_refused(const std::string& text) { return refusal_of(text) != "not refused"; }

TEST(DedupeWindow, is_a_duration_or_a_period_in_a_zone) {
  EXPECT_EQ(parsed_dedupe_window("12h").span, std::chrono::hours(12));
  EXPECT_EQ(parsed_dedupe_window("12h").began, std::nullopt);
  for (const std::string text :
       {"hour", "day@UTC", "week@Europe/Berlin", "month@Etc/GMT+5"}) {
    const auto window = parsed_dedupe_window(text);

    EXPECT_EQ(window.period, text);
    EXPECT_GE(window.span, milliseconds(1));
    EXPECT_LT(window.span, std::chrono::hours(32 * 24));
    EXPECT_TRUE(window.began);
  }
}

TEST(DedupeWindow, is_refused_in_a_zone_that_is_none) {
  for (const std::string zone :
       {"Europe/Berln", "europe/berlin", "", "/etc/localtime", "../../../etc/localtime",
        "Europe/../Europe/Berlin", ":Europe/Berlin", "Europe//Berlin", "Europe",
        "Europe/", "CET-1CEST", "tzdata.zi", "zone.tab", "Europe/Berlin ",
        "Europe/Berlin\n"}) {
    EXPECT_TRUE(is_refused("day@" + zone)) << zone;
  }
  EXPECT_EQ(refusal_of("dya"),
            "expected a duration such as 12h, or hour, day, week or month, as in "
            "day@Europe/Berlin, not 'dya': did you mean 'day'?");
  EXPECT_TRUE(is_refused("12h@UTC"));
  EXPECT_TRUE(is_refused("days@UTC"));
}

TEST(DedupeWindow, is_in_the_zone_of_the_caller_and_leaves_it_as_it_is) {
  for (const char* zone : {"", "UTC", ":UTC", "Asia/Kathmandu", ":Asia/Kathmandu",
                           "/usr/share/zoneinfo/Asia/Kathmandu", "<+0545>-5:45",
                           "CET-1CEST,M3.5.0,M10.5.0/3"}) {
    const OwnZone own(zone);
    const bool is_kathmandu = std::string(zone).find("45") != std::string::npos ||
                              std::string(zone).find("Kath") != std::string::npos;

    const auto began = parsed_dedupe_window("hour").began_at;

    EXPECT_EQ(began % std::chrono::hours(1), is_kathmandu ? minutes(15) : minutes(0))
        << zone;
    EXPECT_EQ(parsed_dedupe_window("hour@UTC").began_at % std::chrono::hours(1),
              minutes(0));
    EXPECT_STREQ(std::getenv("TZ"), zone);
  }
  for (const char* zone : {"Europe/Nowhere", ":Nowhere", "/nowhere", "no zone", "../x"}) {
    const OwnZone own(zone);

    EXPECT_TRUE(is_refused("day")) << zone;
    EXPECT_FALSE(is_refused("day@UTC")) << zone;
  }
}

TEST(DedupeWindow, of_a_period_grows_while_the_claim_waits) {
  Dedupe rule{milliseconds(1), false, false, Clock::now() - std::chrono::hours(3)};

  EXPECT_GE(rule.as_of_now().window, std::chrono::hours(3));
  rule.began.reset();
  EXPECT_EQ(rule.as_of_now(), rule);
}

// Other versions of dlock, and whoever computes them elsewhere, rely on these numbers.
TEST(Splay, is_always_the_same_for_the_same_host_and_lock) {
  const auto hour = milliseconds(3'600'000);

  EXPECT_EQ(splay_for("web1", "nightly", hour).count(), 1'924'661);
  EXPECT_EQ(splay_for("web2", "nightly", hour).count(), 510'789);
  EXPECT_EQ(splay_for("web1", "hourly", hour).count(), 2'591'656);
  EXPECT_EQ(splay_for("web1", "nightly", milliseconds(1)).count(), 0);
}

TEST(Splay, spreads_hosts_evenly) {
  std::vector<int> in_tenth(10);
  for (int host = 1; host <= 1000; ++host) {
    const auto splay =
        splay_for("web" + std::to_string(host), "job", milliseconds(9999)).count();
    ++in_tenth.at(static_cast<std::size_t>(splay / 1000));
  }
  for (const int hosts : in_tenth) EXPECT_NEAR(hosts, 100, 40);
}

}  // namespace
}  // namespace dlock
