#include "store/etcd/etcd_entry.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "record/encoders.hpp"
#include "record/record_fields.hpp"
#include "util/bits.hpp"
#include "util/json.hpp"

namespace dlock::etcd {

namespace {

constexpr std::string_view runs_folder = ".runs/";

// Characters that would end the part, or make it look like one of dlock's own folders.
std::string encoded(std::string_view part) {
  std::string text;
  for (const char c : part) {
    const bool leads = text.empty() && c == '.';
    if (c == '/') {
      text += "%2F";
    } else if (c == '%') {
      text += "%25";
    } else if (leads) {
      text += "%2E";
    } else {
      text += c;
    }
  }
  return text;
}

// The inverse of encoded().
std::string decoded(std::string_view text) {
  std::string part;
  while (!text.empty()) {
    const auto code = text.substr(0, 3);
    const bool is_code = code == "%2F" || code == "%25" || code == "%2E";
    part += code == "%2F" ? '/' : code == "%2E" ? '.' : text.front();
    text.remove_prefix(is_code ? code.size() : 1);
  }
  return part;
}

std::int64_t positive(std::uint64_t sum) {
  const auto cut = static_cast<std::int64_t>(sum & INT64_MAX);
  return cut == 0 ? 1 : cut;
}

}  // namespace

std::string namespace_prefix(const std::string& name_space) {
  return encoded(name_space) + "/";
}

std::string queue_prefix(const LockName& lock) {
  return namespace_prefix(lock.name_space) + encoded(lock.name) + "/";
}

std::string runs_prefix(const LockName& lock) {
  return namespace_prefix(lock.name_space) + std::string(runs_folder) +
         encoded(lock.name) + "/";
}

std::string now_prefix(const LockName& lock) { return runs_prefix(lock) + "now/"; }

std::string past_prefix(const LockName& lock) { return runs_prefix(lock) + "past/"; }

std::string now_key(const LockName& lock, std::string_view id) {
  return now_prefix(lock).append(id);
}

std::string past_key(const LockName& lock, Fence fence) {
  return past_prefix(lock) + checksum_text(fence.number);  // in their order
}

std::string told_key(const LockName& lock, std::string_view id) {
  return runs_prefix(lock).append("told/").append(id);
}
std::string taken_key(const LockName& lock, std::string_view id) {
  return runs_prefix(lock).append("taken/").append(id);
}

std::string refused_key(const LockName& lock) { return runs_prefix(lock) + "refused"; }

std::string superseded_key(const LockName& lock) {
  return runs_prefix(lock) + "superseded";
}

std::string never_key(const LockName& lock) { return runs_prefix(lock) + "never"; }

std::string register_key(const LockName& resource) {
  return namespace_prefix(resource.name_space) + ".fence/" + encoded(resource.name);
}

std::optional<KeyParts> parts_of(std::string_view key, const std::string& name_space) {
  const auto all = namespace_prefix(name_space);
  if (!key.starts_with(all)) return std::nullopt;
  key.remove_prefix(all.size());
  KeyParts parts;
  parts.in_queue = !key.starts_with(runs_folder);
  if (!parts.in_queue) key.remove_prefix(runs_folder.size());
  const auto end = key.find('/');
  if (end == std::string_view::npos) return std::nullopt;
  parts.name = decoded(key.substr(0, end));
  const bool is_one = encoded(parts.name) == key.substr(0, end);
  if (!is_one || !is_valid({name_space, parts.name})) return std::nullopt;
  parts.rest = key.substr(end + 1);
  return parts;
}

std::int64_t number_for(const Token& token, unsigned times) {
  return positive(checksum(text_of(token), times));
}

std::string id_of(std::int64_t number) {
  std::array<char, 16> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(),
                                 static_cast<std::uint64_t>(number), 16)
                       .ptr;
  return {text.data(), end};
}

std::int64_t lease_of_day(const std::string& name_space, WallTime now) {
  const auto day = std::chrono::floor<std::chrono::days>(now).count();
  return positive(checksum("dlock day " + name_space, static_cast<std::uint64_t>(day)));
}

namespace {

constexpr const char* standing_names[] = {"waits", "holds", "broken", "ended"};

std::optional<Standing> standing_from(const std::string& name) {
  const auto* const found = std::ranges::find(standing_names, name);
  if (found == std::end(standing_names)) return std::nullopt;
  return static_cast<Standing>(found - std::begin(standing_names));
}

std::optional<Dedupe> dedupe_from(const Json& json) {
  const auto kind = text_at(json, "dedupe");
  if (kind.empty()) return std::nullopt;
  const milliseconds window(count_at(json, "window_ms").value_or(0));
  return Dedupe{window, kind == "success", kind == "join"};
}

std::optional<Taker> taker_from(const Json& json) {
  if (json.find("taken_by") == json.end()) return std::nullopt;
  Taker taker;
  fields(taker, record::JsonReader<record::etcd_entry>(json));
  return taker;
}

// False if dlock did not write it.
bool fill(QueueEntry& entry, const Json& json) {
  const auto mode = text_at(json, "mode");
  const auto standing = standing_from(text_at(json, "standing"));
  const auto slots = count_at(json, "slots").value_or(1);
  const auto slot = count_at(json, "slot").value_or(0);
  const auto since = count_at(json, "since");
  if ((mode != "exclusive" && mode != "shared") || !standing || !since || slots < 1 ||
      slots > UINT32_MAX || slot >= slots) {
    return false;
  }
  entry.standing = *standing;
  entry.mode = mode == "shared" ? Mode::shared : Mode::exclusive;
  entry.slots = static_cast<unsigned>(slots);
  entry.slot = static_cast<unsigned>(slot);
  entry.given_fence.number =
      static_cast<std::uint64_t>(count_at(json, "fence").value_or(0));
  entry.since = WallTime(*since);
  entry.ttl = count_at(json, "ttl").value_or(0);
  entry.acquired_ttl = count_at(json, "acquired_ttl").value_or(0);
  entry.attached = !flag_at(json, "detached");
  entry.for_pid = flag_at(json, "for_pid");
  entry.supersedes = flag_at(json, "supersedes");
  entry.replaces = flag_at(json, "replaces");
  entry.dedupe = dedupe_from(json);
  fields(entry, record::JsonReader<record::etcd_entry>(json));
  entry.taken_by = taker_from(json);
  return true;
}

Clock::time_point as_boot_time(WallTime time) {
  constexpr auto greatest = std::chrono::duration_cast<WallTime>(Clock::duration::max());
  return Clock::time_point(std::min(time, greatest));
}

rules::Party party_of(const QueueEntry& entry) {
  rules::Party party;
  party.token = token_of(entry.id);
  party.session = static_cast<rules::Session>(entry.created);
  party.pid = entry.pid;
  party.Owner::operator=(entry);
  party.foreign = entry.foreign;
  return party;
}

}  // namespace

Fence QueueEntry::fence() const {
  if (foreign) return {};
  return given_fence.number != 0 ? given_fence
                                 : Fence{static_cast<std::uint64_t>(created)};
}

QueueEntry entry_for(const Claim& claim, WallTime now) {
  QueueEntry entry;
  entry.CommandInfo::operator=(own_party(claim));
  entry.mode = claim.mode;
  entry.slots = claim.slots;
  entry.since = now;
  entry.attached = claim.attached;
  entry.for_pid = claim.for_pid;
  entry.supersedes = claim.supersedes;
  entry.replaces = claim.replaces;
  if (claim.dedupe) entry.dedupe = claim.dedupe->as_of_now();
  return entry;
}

std::string text_of(const QueueEntry& entry) {
  record::JsonWriter<record::etcd_entry> json;
  json("standing", std::string(standing_names[static_cast<std::size_t>(entry.standing)]));
  json("mode", entry.mode);
  if (entry.slots != 1) json("slots", entry.slots);
  if (entry.slot != 0) json("slot", entry.slot);
  if (entry.given_fence.number != 0) json("fence", entry.given_fence);
  json("since", entry.since);
  json("ttl", entry.ttl);
  if (entry.acquired_ttl != 0) json("acquired_ttl", entry.acquired_ttl);
  if (!entry.attached) json("detached", true);
  if (entry.for_pid) json("for_pid", true);
  if (entry.supersedes) json("supersedes", true);
  if (entry.replaces) json("replaces", true);
  if (entry.dedupe) {
    json("dedupe", std::string(entry.dedupe->joins          ? "join"
                               : entry.dedupe->retry_failed ? "success"
                                                            : "any"));
    json("window_ms", entry.dedupe->window);
  }
  fields(entry, json);
  if (entry.taken_by) fields(*entry.taken_by, json);
  return json.finished();
}

QueueEntry entry_from(const KeyValue& pair, std::string_view prefix) {
  QueueEntry entry;
  const auto json = object_from(pair.value);
  if (!json || !fill(entry, *json)) {
    entry = {};
    entry.foreign = true;
    entry.attached = false;
  }
  entry.id = pair.key.substr(std::min(prefix.size(), pair.key.size()));
  entry.created = pair.create_revision;
  entry.modified = pair.mod_revision;
  entry.lease = pair.lease;
  return entry;
}

std::vector<QueueEntry> entries_from(const std::vector<KeyValue>& pairs,
                                     std::string_view prefix) {
  std::vector<QueueEntry> entries;
  entries.reserve(pairs.size());
  for (const auto& pair : pairs) entries.push_back(entry_from(pair, prefix));
  // Two entries have the same revision only if another program writes there.
  std::ranges::sort(entries, [](const QueueEntry& a, const QueueEntry& b) {
    return a.created != b.created ? a.created < b.created : a.id < b.id;
  });
  return entries;
}

Token token_of(std::string_view id) {
  Token token;
  const std::uint64_t halves[] = {checksum(id, 0), checksum(id, 1)};
  static_assert(sizeof halves == sizeof token.bytes);
  std::memcpy(token.bytes.data(), halves, sizeof halves);
  return token;
}

rules::Moment moment_of(WallTime now) { return {as_boot_time(now), now}; }

rules::Holder as_holder(const QueueEntry& entry) {
  rules::Holder holder;
  holder.party = party_of(entry);
  holder.ended = entry.standing == Standing::ended;
  if (!entry.attached || holder.ended) holder.party.session = 0;
  holder.mode = entry.mode;
  holder.slot = entry.slot;
  holder.fence = entry.fence();
  holder.since = entry.since;
  // That of a foreign one is unknown, and it is shown as held for no time.
  holder.granted_at =
      entry.foreign ? Clock::time_point::max() : as_boot_time(entry.since);
  holder.ends_unknown = entry.lease != 0;  // only another request would tell
  holder.Description::operator=(entry);
  holder.period = entry.period;
  holder.argv = entry.command;
  holder.counts = entry.counts();
  holder.for_pid = entry.for_pid;
  holder.broken = entry.standing == Standing::broken;
  holder.taken_by = entry.taken_by;
  return holder;
}

rules::Waiter as_waiter(const QueueEntry& entry) {
  rules::Waiter waiter;
  waiter.party = party_of(entry);
  waiter.mode = entry.mode;
  waiter.since = entry.since;
  waiter.queued_at = entry.foreign ? Clock::time_point::max() : as_boot_time(entry.since);
  waiter.dedupe = entry.dedupe;
  waiter.supersedes = entry.supersedes;
  waiter.replaces = entry.replaces;
  waiter.Description::operator=(entry);
  waiter.argv = entry.command;
  return waiter;
}

}  // namespace dlock::etcd
