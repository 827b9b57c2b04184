// Events as lines of a file, and readers that follow the file.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "store/local/text_files.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace dlock::local {
namespace {

using namespace record;

using Lines = std::vector<std::string>;

Event event_of(const std::string& name) {
  Event event;
  event.time = WallTime(1'700'000'000'123'456);
  event.kind = Event::Kind::released;
  event.lock = {"some space", name};
  event.fence.number = 1'795'271'470'307'526;
  event.free = 3;
  event.host = "web\"1\"";
  event.pid = 12;
  event.user = "33";
  event.label = "a\nb";
  event.command = {"x", "", "\xff"};
  auto& run = event.run.emplace();
  run.signal = "TERM";
  run.outcome = "ran";
  run.duration = milliseconds(7);
  return event;
}

TEST(EventLines, read_back_as_written) {
  const auto event = event_of("job");

  const auto line = line_of(event);
  const auto back = event_from(line);

  EXPECT_EQ(line.find('\n'), line.size() - 1);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->time, event.time);
  EXPECT_EQ(back->kind, event.kind);
  EXPECT_EQ(back->lock, event.lock);
  EXPECT_EQ(back->fence, event.fence);
  EXPECT_EQ(back->free, 3u);
  EXPECT_EQ(back->host, event.host);
  EXPECT_EQ(back->pid, 12);
  EXPECT_EQ(back->user, "33");
  EXPECT_EQ(back->label, event.label);
  ASSERT_TRUE(back->run);
  EXPECT_EQ(back->run->signal, "TERM");
  EXPECT_EQ(back->run->exit_code, std::nullopt);
  EXPECT_EQ(back->run->duration, milliseconds(7));
}

TEST(EventLines, that_are_invalid_are_ignored) {
  for (const char* line : {"", "x", "[]", "{}", "{\"event\":\"granted\"}",
                           "{\"event\":\"eaten\",\"name\":\"job\"}",
                           "{\"event\":1,\"name\":2,\"fence\":\"x\",\"command\":{}}"}) {
    EXPECT_FALSE(event_from(line)) << line;
  }
}

class EventFile : public ::testing::Test {
 protected:
  Lines names_read(EventReader& reader) {
    Lines names;
    const auto events = reader.read();
    if (!events) return {"lost"};
    for (const auto& event : *events) names.push_back(event.lock.name);
    return names;
  }

  TemporaryDirectory place_;
  Directory directory_ =
      *Directory::open(place_.file("store"), false, Directory::Missing::create);
  SessionsFile sessions_{directory_, true};
};

TEST_F(EventFile, is_read_from_its_end_on) {
  publish(directory_, sessions_, {event_of("before")});
  EventReader reader(directory_);

  EXPECT_EQ(names_read(reader), Lines{});
  publish(directory_, sessions_, {event_of("one"), event_of("two")});
  publish(directory_, sessions_, {event_of("three")});
  EXPECT_EQ(names_read(reader), (Lines{"one", "two", "three"}));
  EXPECT_EQ(names_read(reader), Lines{});
}

TEST_F(EventFile, is_followed_to_its_replacement_when_it_grows_too_long) {
  EventReader reader(directory_);
  auto large = event_of("large");
  large.label = std::string(600'000, 'x');

  for (int i = 0; i < 3; ++i) publish(directory_, sessions_, {large});

  EXPECT_EQ(names_read(reader), (Lines{"large", "large", "large"}));
  EXPECT_TRUE(reader.was_replaced());
  publish(directory_, sessions_, {event_of("next")});
  EXPECT_EQ(names_read(reader), Lines{"next"});
  EXPECT_FALSE(reader.was_replaced());
}

TEST_F(EventFile, reports_lost_events_if_it_was_replaced_more_than_once) {
  EventReader reader(directory_);
  auto large = event_of("large");
  large.label = std::string(1'100'000, 'x');

  for (int i = 0; i < 3; ++i) publish(directory_, sessions_, {large});

  EXPECT_EQ(names_read(reader), Lines{"lost"});
}

}  // namespace
}  // namespace dlock::local
