#include "record/run_lines.hpp"

#include <algorithm>
#include <set>

#include "record/record_fields.hpp"
#include "util/text.hpp"

namespace dlock::record {
namespace {

using rules::Holder;

constexpr std::size_t lines_per_lock = 40;  // starts and ends of the last 20 runs

// A shorter line cannot have all fields; a longer one than dlock writes, with 4 KiB of a
// command, is not parsed either.
constexpr std::size_t shortest_log_line = 40;
constexpr std::size_t longest_log_line = 64 << 10;

constexpr const char* was_no_run = "not-started";
constexpr const char* was_acquired = "acquire";

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) break;  // truncated by a crash
    if (end >= shortest_log_line && end <= longest_log_line)
      lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

LockName lock_of(const Json& line) {
  return {line["namespace"].get<std::string>(), line["name"].get<std::string>()};
}

// The fields of a valid line, otherwise null.
Json parsed(std::string_view line) {
  auto object = object_from(line);
  if (!object) return {};
  auto& json = *object;
  const bool usable = json.contains("namespace") && json["namespace"].is_string() &&
                      json.contains("name") && json["name"].is_string() &&
                      json.contains("fence") && json["fence"].is_number_unsigned() &&
                      json.contains("event") && json["event"].is_string();
  // The file may contain anything.
  const bool possible = usable && is_valid(lock_of(json)) &&
                        Fence{json["fence"].get<std::uint64_t>()} <= greatest_fence;
  return possible ? std::move(json) : Json();
}

RunInfo run_of(const Json& line) {
  RunInfo run;
  fields(run, JsonReader<runs_log>(line));
  if (run.outcome.empty() || is_running(run)) run.outcome = "vanished";
  return run;
}

template <typename T>
JsonWriter<runs_log> line_of(const std::string& event, const LockName& lock,
                             const T& it) {
  JsonWriter<runs_log> line;
  line("event", event);
  line("namespace", lock.name_space);
  line("name", lock.name);
  fields(it, line);
  return line;
}

// The fields besides the kind, the run and who took the lock.
template <Of<Event> Event, typename Visit>
void fields_of_event(Event& event, Visit&& visit) {
  visit("namespace", event.lock.name_space);
  visit("name", event.lock.name);
  visit("fence", event.fence);
  visit("free", event.free);
  visit("priority", event.priority, small<news>);
  fields(event, visit);
}

}  // namespace

std::string start_line(const LockName& lock, const Holder& holder) {
  auto line = line_of("start", lock, holder);
  line("command", holder.argv);
  return line.text() + ",\"command_pid\":";
}

std::string grant_line(const LockName& lock, const Holder& holder) {
  return line_of(was_acquired, lock, holder).finished();
}

std::string end_line(const LockName& lock, const RunInfo& run) {
  return line_of("end", lock, run).finished();
}

RunInfo never_started_run(const Holder& holder) {
  RunInfo run;
  run.fence = holder.fence;
  run.started = holder.since;
  run.Owner::operator=(holder.party);
  run.outcome = was_no_run;
  return run;
}

namespace {

// The fence of a line that may be damaged; 0 if there is none. A text value cannot be
// mistaken for a fence, because its quotes are escaped.
Fence fence_in(std::string_view line) {
  constexpr std::string_view key = "\"fence\":";
  const auto at = line.find(key);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + key.size());
  return Fence{take_number<std::uint64_t>(line).value_or(0)};
}

Fence greatest_plausible_fence_in(const std::vector<std::string_view>& lines,
                                  WallTime now) {
  std::vector<Fence> fences;
  fences.reserve(lines.size());
  for (const auto line : lines) fences.push_back(fence_in(line));
  if (fences.empty()) return greatest_plausible_fence(now, {});
  // More than half of the lines have reached the one in the middle.
  const auto middle =
      fences.begin() + static_cast<std::ptrdiff_t>((fences.size() - 1) / 2);
  std::nth_element(fences.begin(), middle, fences.end());
  return greatest_plausible_fence(now, *middle);
}

}  // namespace

std::optional<Fence> fence_far_ahead(std::string_view log, WallTime now) {
  Fence greatest;
  for (const auto line : lines_of(log)) greatest = std::max(greatest, fence_in(line));
  if (greatest <= greatest_plausible_fence(now, {})) return std::nullopt;
  return greatest;
}

History history_of(std::string_view log, WallTime now) {
  History history;
  std::map<LockName, std::map<Fence, RunInfo>> begun;
  std::map<LockName, std::map<Fence, RunInfo>> over;
  const auto note = [&](const LockName& lock, RunInfo run) {
    if (run.counts) history.past[lock].note(run);
    over[lock].insert_or_assign(run.fence, run);
    if (is_by_hand(run)) return;
    auto [known, is_new] = history.last_runs.try_emplace(lock, run);
    if (!is_new && known->second.fence <= run.fence) known->second = std::move(run);
  };
  const auto lines = lines_of(log);
  const auto most = greatest_plausible_fence_in(lines, now);
  for (const auto text : lines) {
    const auto line = parsed(text);
    if (line.is_null()) continue;
    auto run = run_of(line);
    if (run.fence > most) continue;
    const auto lock = lock_of(line);
    history.greatest_fence = std::max(history.greatest_fence, run.fence);
    const bool was_by_hand = line["event"] == was_acquired;
    if (was_by_hand) run.outcome = by_hand;
    if (was_by_hand || line["event"] == "start") {
      begun[lock].insert_or_assign(run.fence, std::move(run));
    } else {
      // The end of a run that vanished was recorded without it.
      const auto start = begun[lock].extract(run.fence);
      if (run.period.empty() && start) run.period = start.mapped().period;
      if (run.outcome != was_no_run) note(lock, std::move(run));
    }
  }
  // A start without an end was interrupted by the reboot.
  for (auto& [lock, runs] : begun) {
    for (auto& [fence, run] : runs) note(lock, std::move(run));
  }
  for (auto& [lock, runs] : over) {
    auto& kept = history.runs[lock];
    for (const auto& [fence, run] : runs) add_to_history(kept, run);
    std::ranges::reverse(kept);
  }
  return history;
}

void add_descriptions(std::vector<RunInfo>& runs, std::string_view log,
                      const LockName& lock) {
  // Most have nothing, or empty texts.
  const auto has_any = [](std::string_view line) {
    bool has = false;
    const auto look = [&](const std::string& key, const auto&, auto...) {
      const auto mark = '"' + key + "\":\"";
      const auto at = line.find(mark);
      has = has ||
            (at != std::string_view::npos && line.substr(at + mark.size(), 1) != "\"");
    };
    const RunInfo any{};
    fields_of_description(any, look), look("period", any.period);
    return has;
  };
  for (const auto text : lines_of(log)) {
    if (!has_any(text)) continue;
    const auto line = parsed(text);
    if (line.is_null() || lock_of(line) != lock) continue;
    const auto logged = run_of(line);
    const bool has_description = static_cast<const Description&>(logged) != Description();
    for (auto& run : runs) {
      if (run.fence != logged.fence) continue;
      if (has_description) run.Description::operator=(logged);
      if (!logged.period.empty()) run.period = logged.period;
    }
  }
}

std::optional<LoggedCommand> command_of(std::string_view log, const LockName& lock,
                                        Fence fence) {
  const auto mark = "\"fence\":" + std::to_string(fence.number) + ",";
  for (const auto text : lines_of(log)) {
    if (text.find(mark) == std::string_view::npos) continue;
    const auto line = parsed(text);
    if (line.is_null() || lock_of(line) != lock || line["event"] != "start") continue;
    const auto pid = pid_at(line, "command_pid");
    const auto running = count_at(line, "command_boot_ms");
    if (pid == 0 || !running) return std::nullopt;
    // The number was rounded down, so the command started within that millisecond.
    return LoggedCommand{pid, Clock::time_point(milliseconds(*running + 1))};
  }
  return std::nullopt;
}

std::optional<RunInfo> end_of(std::string_view log, const LockName& lock, Fence fence) {
  const auto mark = "\"fence\":" + std::to_string(fence.number) + ",";
  std::optional<RunInfo> found;
  for (const auto text : lines_of(log)) {
    if (text.find(mark) == std::string_view::npos) continue;
    const auto line = parsed(text);
    if (line.is_null() || lock_of(line) != lock || line["event"] != "end") continue;
    if (auto run = run_of(line); run.outcome != was_no_run) found = std::move(run);
  }
  return found;
}

bool has_lease_by_hand(std::string_view log, const LockName& lock) {
  std::set<std::uint64_t> fences;
  for (const auto text : lines_of(log)) {
    const auto line = parsed(text);
    if (line.is_null() || lock_of(line) != lock) continue;
    const auto fence = line["fence"].get<std::uint64_t>();
    if (line["event"] == was_acquired) fences.insert(fence);
    if (line["event"] == "end") fences.erase(fence);
  }
  return !fences.empty();
}

namespace {

// The line with the greatest plausible fence, as fences must not be reused; empty if
// there is none.
std::string_view line_of_greatest_fence(const std::vector<std::string_view>& lines) {
  const auto most = greatest_plausible_fence_in(lines, wall_now());
  std::string_view found;
  Fence greatest;
  for (const auto line : lines) {
    const auto fence = fence_in(line);
    if (fence > greatest && fence <= most && !parsed(line).is_null()) {
      greatest = fence;
      found = line;
    }
  }
  return found;
}

}  // namespace

std::string shortened(std::string_view log, std::size_t most) {
  const auto lines = lines_of(log);
  const auto greatest = line_of_greatest_fence(lines);
  std::map<LockName, std::size_t> kept_of;
  std::vector<std::string_view> kept;
  std::size_t size = 0;
  for (auto text = lines.rbegin(); text != lines.rend(); ++text) {
    const auto line = parsed(*text);
    if (line.is_null() || ++kept_of[lock_of(line)] > lines_per_lock) continue;
    size += text->size() + 1;
    if (size > most) break;
    kept.push_back(*text);
  }
  const auto is_greatest = [&](std::string_view text) {
    return text.data() == greatest.data();
  };
  if (!greatest.empty() && std::ranges::none_of(kept, is_greatest)) {
    kept.push_back(greatest);
  }
  std::string out;
  for (auto text = kept.rbegin(); text != kept.rend(); ++text) {
    out += *text;
    out += '\n';
  }
  return out;
}

std::string line_of(const Event& event) {
  JsonWriter<news> line;
  line("time", event.time);
  line("event", std::string(event_name(event.kind)));
  fields_of_event(event, line);
  if (event.run) {
    auto run = *event.run;
    if (!run.duration) run.duration = milliseconds(0);
    fields(run, line);
  }
  line("taken_by", event.taken_by, if_set<news>);
  return line.finished() + "\n";
}

std::optional<Event> event_from(std::string_view line) {
  const auto json = object_from(line);
  if (!json) return std::nullopt;
  JsonReader<news> read(*json);
  Event event;
  std::string kind_name;
  read("event", kind_name);
  read("time", event.time);
  fields_of_event(event, read);
  const auto kind = event_kind_of(kind_name);
  if (!kind || !is_valid(event.lock)) return std::nullopt;
  event.kind = *kind;
  RunInfo run;
  fields(run, read);
  if (!run.outcome.empty()) {
    run.ended = event.time;
    if (!run.duration) run.duration = milliseconds(0);
    event.run = std::move(run);
  }
  const auto taker = json->find("taken_by");
  if (taker != json->end() && taker->is_object()) {
    fields(event.taken_by.emplace(), JsonReader<news>(*taker));
  }
  return event;
}

}  // namespace dlock::record
