#include "record/event_line.hpp"

#include "record/party_fields.hpp"
#include "record/run_fields.hpp"

namespace dlock::record {
namespace {

// The fields besides the kind, the party, the run and who took the lock.
template <Of<Event> Event, typename Visit>
void fields_of_event(Event& event, Visit&& visit) {
  visit("namespace", event.lock.name_space);
  visit("name", event.lock.name);
  visit("fence", event.fence);
  visit("free", event.free);
}

}  // namespace

std::string line_of(const Event& event) {
  JsonLine line;
  JsonWriter write(line);
  write("time", event.time);
  write("event", std::string(event_name(event.kind)));
  fields_of_event(event, write);
  fields_in_event(static_cast<const CommandInfo&>(event), write);
  if (event.run) {
    auto run = *event.run;
    if (!run.duration) run.duration = milliseconds(0);
    fields_in_event(run, write);
  }
  if (event.taken_by) {
    JsonLine taker;
    fields_in_event(*event.taken_by, JsonWriter(taker));
    line.add_object("taken_by", taker);
  }
  return line.finished() + "\n";
}

std::optional<Event> event_from(std::string_view line) {
  const auto json = object_from(line);
  if (!json) return std::nullopt;
  JsonReader read(*json);
  Event event;
  std::string kind_name;
  read("event", kind_name);
  read("time", event.time);
  fields_of_event(event, read);
  const auto kind = event_kind_of(kind_name);
  if (!kind || !is_valid(event.lock)) return std::nullopt;
  event.kind = *kind;
  fields_in_event(static_cast<CommandInfo&>(event), read);
  RunInfo run;
  fields_in_event(run, read);
  if (!run.outcome.empty()) {
    run.ended = event.time;
    if (!run.duration) run.duration = milliseconds(0);
    event.run = std::move(run);
  }
  const auto taker = json->find("taken_by");
  if (taker != json->end() && taker->is_object()) {
    fields_in_event(event.taken_by.emplace(), JsonReader(*taker));
  }
  return event;
}

}  // namespace dlock::record
