#include <algorithm>

#include "cli/show/lock_view.hpp"
#include "cli/show/loss_text.hpp"
#include "cli/show/table.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// How the run ended, who took the lock, or what the event is about.
std::string message_of(const Event& event) {
  if (event.taken_by) return taker_text(*event.taken_by);
  if (event.run) {
    return outcome_of(*event.run) +
           (event.run->duration ? ", took " + for_people(*event.run->duration) : "");
  }
  std::string text = printable(event.label, 60);
  if (!event.command.empty()) {
    text += (text.empty() ? "" : ": ") + printable_command(event.command, 200);
  }
  return text;
}

Paint paint_of(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::granted: return Paint::green;
    case Event::Kind::expired:
    case Event::Kind::lost:
    case Event::Kind::broken: return Paint::red;
    case Event::Kind::queued:
    case Event::Kind::left:
    case Event::Kind::released: break;
  }
  return Paint::plain;
}

}  // namespace

Json json_of(const Event& event) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  const auto run = event.run.value_or(RunInfo{});
  return Json{
      {"time", rfc3339(event.time)},
      {"event", event_name(event.kind)},
      {"name", event.lock.name},
      {"fence", event.fence.number > 0 ? Json(event.fence.number) : Json(nullptr)},
      {"host", text_or_null(event.host)},
      {"pid", event.pid > 0 ? Json(event.pid) : Json(nullptr)},
      {"user", text_or_null(event.user)},
      {"command", event.command},
      {"label", event.host.empty() ? Json(nullptr) : Json(event.label)},
      {"exit_code", or_null(run.exit_code)},
      {"signal", or_null(run.signal)},
      {"duration_ms", or_null(run.duration)},
      {"free", event.free},
      {"message", text_or_null(message_of(event))},
  };
}

std::string event_text(const Event& event, bool color) {
  const auto message = message_of(event);
  std::string kind = event_name(event.kind);
  const std::string padding(10 - std::min<std::size_t>(kind.size(), 9), ' ');
  auto text = rfc3339(event.time) + "  " + colored(kind, paint_of(event.kind), color) +
              padding + printable_name(event.lock.name) + "  ";
  if (!event.host.empty()) text += printable(event.host, 64) + ", ";
  if (event.pid > 0) text += "pid " + std::to_string(event.pid) + ", ";
  return text + std::to_string(event.free) + " free" +
         (message.empty() ? "" : ": " + message) + "\n";
}

}  // namespace dlock
