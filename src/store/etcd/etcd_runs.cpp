#include "store/etcd/etcd_runs.hpp"

#include <algorithm>
#include <string_view>

#include "record/encoders.hpp"
#include "record/record_fields.hpp"
#include "rules/state.hpp"
#include "util/json.hpp"

namespace dlock::etcd {

namespace {

// Records beyond the retention, so that only one release in this many has to delete any.
constexpr std::size_t slack = 10;

// Nothing if it does not identify the run.
template <record::Place place>
std::optional<RunInfo> run_from(const Json& json) {
  if (!count_at(json, "fence") || !count_at(json, "started")) return std::nullopt;
  RunInfo run;
  fields(run, record::JsonReader<place>(json));
  return run;
}

std::optional<PastRun> past_from(const KeyValue& pair) {
  const auto json = object_from(pair.value);
  auto run = json ? run_from<record::etcd>(*json) : std::nullopt;
  if (!run || is_running(*run)) return std::nullopt;
  return PastRun{pair.key, std::move(*run), flag_at(*json, "shared"), pair.mod_revision};
}

std::optional<OpenRun> open_from(const KeyValue& pair, std::string_view id) {
  const auto json = object_from(pair.value);
  auto run = json ? run_from<record::etcd_start>(*json) : std::nullopt;
  if (!run) return std::nullopt;
  // The fence of an immediate grant is the revision of its entry.
  if (run->fence.number == 0) {
    run->fence.number = static_cast<std::uint64_t>(pair.mod_revision);
  }
  OpenRun open;
  open.key = pair.key;
  open.id = id;
  open.info = std::move(*run);
  open.attached = !flag_at(*json, "detached");
  open.until = WallTime(count_at(*json, "until").value_or(0));
  return open;
}

// What an object of the fields of `Record` says; nothing if it is none.
template <typename Record>
std::optional<Record> record_from(const KeyValue& pair) {
  const auto json = object_from(pair.value);
  if (!json) return std::nullopt;
  Record found;
  fields(found, record::JsonReader<record::etcd>(*json));
  return found;
}

// The text after `part`, if `text` begins with it.
std::optional<std::string_view> behind(std::string_view part, std::string_view text) {
  if (!text.starts_with(part)) return std::nullopt;
  return text.substr(part.size());
}

void sort_in(Runs& runs, const KeyValue& pair, std::string_view name) {
  if (behind("past/", name)) {
    auto past = past_from(pair);
    if (!past) return runs.damaged.push_back(pair.key);
    runs.past.push_back(std::move(*past));
  } else if (const auto running = behind("now/", name)) {
    auto open = open_from(pair, *running);
    if (!open) return runs.damaged.push_back(pair.key);
    runs.open.push_back(std::move(*open));
  } else if (const auto waited = behind("told/", name)) {
    if (auto told = record_from<Superseded>(pair))
      runs.told.emplace_back(*waited, std::move(*told));
  } else if (const auto held = behind("taken/", name)) {
    if (auto taker = record_from<Taker>(pair))
      runs.taken.emplace_back(*held, std::move(*taker));
  } else if (name == "refused") {
    runs.refused = static_cast<std::uint64_t>(pair.version);
  } else if (name == "superseded") {
    runs.superseded = static_cast<std::uint64_t>(pair.version);
  }
}

bool is_there(const std::vector<QueueEntry>& entries, std::string_view id) {
  return std::ranges::any_of(
      entries, [&](const QueueEntry& entry) { return entry.id == id && entry.holds(); });
}

}  // namespace

Runs runs_from(const std::vector<KeyValue>& pairs, std::string_view folder) {
  Runs runs;
  for (const auto& pair : pairs) {
    const auto name = behind(folder, pair.key);
    if (name) sort_in(runs, pair, *name);
  }
  std::ranges::sort(runs.past,
                    [](const auto& a, const auto& b) { return a.revision < b.revision; });
  return runs;
}

std::string open_run_text(const QueueEntry& holder, WallTime until) {
  record::JsonWriter<record::etcd_start> json;
  const auto run = rules::vanished_run(as_holder(holder));
  fields(run, json);
  if (!holder.attached) json("detached", true), json("until", until);
  return json.finished();
}

std::string past_run_text(const RunInfo& run, bool is_shared) {
  record::JsonWriter<record::etcd> json;
  fields(run, json);
  if (is_shared) json("shared", true);
  return json.finished();
}

std::string told_text(const Superseded& newer) {
  return record::json_of<record::etcd>(newer);
}

std::string taken_text(const Taker& taker) {
  return record::json_of<record::etcd>(taker);
}

std::vector<RunInfo> vanished(const Runs& runs, const std::vector<QueueEntry>& entries,
                              WallTime now) {
  std::vector<RunInfo> found;
  for (const auto& open : runs.open) {
    if (is_there(entries, open.id)) continue;
    auto run = open.info;
    run.outcome = open.attached ? "vanished" : by_hand;
    if (!open.attached) {
      run.ended = std::clamp(open.until, run.started, std::max(run.started, now));
      run.duration = std::chrono::duration_cast<milliseconds>(*run.ended - run.started);
    }
    found.push_back(std::move(run));
  }
  return found;
}

std::vector<RunInfo> kept_runs(const Runs& runs, const std::vector<QueueEntry>& entries,
                               WallTime now) {
  auto ended = vanished(runs, entries, now);
  for (const auto& past : runs.past) ended.push_back(past.info);
  std::ranges::sort(ended, [](const RunInfo& a, const RunInfo& b) {
    return a.ended.value_or(a.started) < b.ended.value_or(b.started);
  });
  std::vector<RunInfo> kept;
  for (const auto& run : ended) add_to_history(kept, run);
  return kept;
}

std::vector<std::string> to_forget(const Runs& runs,
                                   const std::vector<QueueEntry>& entries, WallTime now) {
  if (runs.past.size() + runs.open.size() <= runs_kept + slack) return {};
  const auto kept = kept_runs(runs, entries, now);
  std::optional<Fence> success;
  std::optional<Fence> counting;
  for (const auto& past : runs.past) {
    if (is_success(past.info)) success = past.info.fence;
    if (past.info.counts) counting = past.info.fence;
  }
  const auto is_kept = [&](Fence fence) {
    return fence == success || fence == counting ||
           std::ranges::any_of(kept,
                               [&](const RunInfo& run) { return run.fence == fence; });
  };
  std::vector<std::string> keys;
  for (const auto& past : runs.past) {
    if (!is_kept(past.info.fence)) keys.push_back(past.key);
  }
  for (const auto& open : runs.open) {
    const bool has_ended = !is_there(entries, open.id);
    if (has_ended && !is_kept(open.info.fence)) keys.push_back(open.key);
  }
  return keys;
}

}  // namespace dlock::etcd
