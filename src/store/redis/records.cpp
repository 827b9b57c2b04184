#include "store/redis/records.hpp"

#include <algorithm>

#include "record/encoders.hpp"
#include "record/record_fields.hpp"
#include "rules/look.hpp"
#include "util/text.hpp"

namespace dlock::redis {

using JsonReader = record::JsonReader<record::redis>;
using record::RecordWords;
using record::RedisParty;

namespace {

// An empty one if the text is not a proper one: the rest of a record still counts.
Json json_in(std::string_view text) { return object_from(text).value_or(Json::object()); }

RedisParty party_in(const Json& json) {
  RedisParty party;
  fields(party, JsonReader(json));
  return party;
}

// Written by taking.lua.
std::optional<Taker> taker_in(const Json& party) {
  for (const std::string_view how : {"forced_by", "broken_by", "replaced_by"}) {
    const auto found = party.find(how);
    if (found == party.end() || !found->is_object()) continue;
    Taker taker;
    fields(taker, JsonReader(*found));
    taker.replaces = how == "replaced_by";
    taker.forced = how == "forced_by";
    return taker;
  }
  return std::nullopt;
}

milliseconds between(WallTime start, WallTime end) {
  return std::chrono::duration_cast<milliseconds>(std::max(end - start, WallTime(0)));
}

// "MODE SLOT FENCE SINCE ENDS KIND PARTY"
std::optional<HolderInfo> holder_from(const Reply& record, const Reply& left,
                                      WallTime now) {
  if (record.kind != Reply::Kind::string || left.kind != Reply::Kind::integer) {
    return std::nullopt;
  }
  HolderInfo info;
  if (left.integer >= 0) info.expires_in = milliseconds(left.integer);
  if (record.text == "foreign") {
    info.foreign = true;
    info.attached = false;
    return info;
  }
  RecordWords words(record.text);
  Mode mode{};
  WallTime ends{};
  words(mode), words(info.slot), words(info.fence), words(info.since), words(ends);
  const auto kind = words.next();
  if (!words.is_usable() || (kind != "h" && kind != "d" && kind != "e" && kind != "b")) {
    return std::nullopt;
  }
  info.run_ended = kind == "e";
  info.broken = kind == "b";
  info.attached = kind == "h" || kind == "b";
  info.held = between(info.since, now);
  const auto party = party_in(json_in(words.rest()));
  info.CommandInfo::operator=(party);
  info.for_pid = party.for_pid;
  return info;
}

bool is_count(const Reply& reply) {
  return reply.kind == Reply::Kind::integer && reply.integer >= 0;
}

// The mode in a holder's record; exclusive for a foreign one.
Mode mode_from(const Reply& pairs) {
  const bool shared =
      !pairs.elements.empty() && pairs.elements.front().text.substr(0, 2) == "s ";
  return shared ? Mode::shared : Mode::exclusive;
}

}  // namespace

// "granted FENCE LASTS FREE TIME PARTY", and after a line break how the run ended.
std::optional<Published> published_from(std::string_view channel, std::string_view text) {
  const auto lock = lock_of(channel);
  RecordWords words(text);
  const auto word = words.next();
  const bool is_kept = word == "kept";
  const auto kind = is_kept ? Event::Kind::released : event_kind_of(word);
  Published published;
  auto& event = published.event;
  std::int64_t free = 0;
  words(event.fence), words(published.lasts), words(free), words(event.time);
  if (!lock || !channel.ends_with("}:e") || !kind || !words.is_usable()) {
    return std::nullopt;
  }
  published.is_event = !is_kept;
  event.kind = *kind;
  event.lock = *lock;
  event.free = static_cast<unsigned>(std::min<std::int64_t>(free, UINT32_MAX));
  const auto split = std::min(words.rest().find('\n'), words.rest().size());
  const auto party = json_in(words.rest().substr(0, split));
  const auto of_event = party_in(party);
  event.CommandInfo::operator=(of_event);
  const bool waits = event.kind == Event::Kind::queued || event.kind == Event::Kind::left;
  if (waits) event.priority = of_event.priority;
  if (event.kind == Event::Kind::broken) event.taken_by = taker_in(party);
  const auto end = json_in(words.rest().substr(split));
  if (!end.empty()) {
    event.run.emplace();
    event.run->ended = event.time;
    fields(*event.run, JsonReader(end));
  }
  return published;
}

std::optional<Taker> taker_from(std::string_view text) { return taker_in(json_in(text)); }

std::optional<std::vector<HolderInfo>> holders_from(const Reply& pairs, WallTime now) {
  if (pairs.kind != Reply::Kind::array || pairs.elements.size() % 2 != 0) {
    return std::nullopt;
  }
  std::vector<HolderInfo> holders;
  for (std::size_t i = 0; i < pairs.elements.size(); i += 2) {
    auto holder = holder_from(pairs.elements[i], pairs.elements[i + 1], now);
    if (!holder) return std::nullopt;
    holders.push_back(std::move(*holder));
  }
  std::ranges::sort(holders, [](const HolderInfo& a, const HolderInfo& b) {
    return a.fence < b.fence;
  });
  return holders;
}

Superseded newer_from(std::string_view text) {
  const auto party = party_in(json_in(text));
  return {party.host, party.pid};
}

// "MODE SINCE UNTIL PASSED TTL LIST PARTY"
std::optional<WaiterInfo> waiter_from(std::string_view record, WallTime now) {
  RecordWords words(record);
  WaiterInfo info;
  Mode mode{};
  std::int64_t until = 0;
  std::int64_t passed = 0;
  words(mode), words(info.since), words(until), words(passed);
  words.next();  // the ttl of the lease
  words.next();  // its list
  if (!words.is_usable()) return std::nullopt;
  const auto party = party_in(json_in(words.rest()));
  info.PartyInfo::operator=(party);
  info.priority = party.priority;
  info.waiting = between(info.since, now);
  return info;
}

// "FENCE STARTED ENDED", and then how it ended, or who runs.
std::optional<RunInfo> run_from(std::string_view record) {
  RecordWords words(record);
  RunInfo run;
  WallTime ended{};
  words(run.fence), words(run.started), words(ended);
  if (!words.is_usable()) return std::nullopt;
  // A detached lease has a letter, and then its holder.
  const bool was_by_hand = words.rest().starts_with("h ");
  if (was_by_hand) words.next();
  const auto end = json_in(words.rest());
  if (ended != WallTime{}) run.ended = ended;
  if (run.ended && !was_by_hand) {
    fields(run, JsonReader(end));
    if (const auto taker = taker_in(end); taker && taker->forced) {
      run.reason = taken_reason(*taker);
      // Unless the holder has reported its end since.
      if (run.outcome.empty()) {
        run.outcome = lost_run;
        run.duration = between(run.started, *run.ended);
      }
    }
    if (is_running(run)) run.outcome = "vanished";  // no script records that of an end
    return run;
  }
  const auto party = party_in(end);
  run.Owner::operator=(party);
  run.Description::operator=(party);
  run.period = party.period;
  run.outcome = was_by_hand ? by_hand : "vanished";
  if (run.ended) run.duration = between(run.started, *run.ended);
  return run;
}

// The server's time, with which a reply begins.
std::optional<WallTime> now_from(const Reply& reply) {
  RecordWords words(reply.text);
  WallTime now{};
  words(now);
  return words.is_usable() ? std::optional(now) : std::nullopt;
}

std::optional<LockInfo> lock_from(const Reply& reply, const LockName& lock) {
  const auto& parts = reply.elements;
  if (reply.kind != Reply::Kind::array || parts.size() != 11 ||
      parts[1].kind != Reply::Kind::integer || parts[6].kind != Reply::Kind::integer ||
      !is_count(parts[7]) || !is_count(parts[8]) || parts[3].kind != Reply::Kind::array ||
      parts[1].integer < 1 || parts[1].integer > UINT32_MAX) {
    return std::nullopt;
  }
  const auto now = now_from(parts[0]);
  if (!now) return std::nullopt;
  auto holders = holders_from(parts[2], *now);
  if (!holders) return std::nullopt;
  LockInfo info;
  info.lock = lock;
  info.holders = std::move(*holders);
  for (const auto& record : parts[3].elements) {
    auto waiter = waiter_from(record.text, *now);
    if (!waiter) return std::nullopt;
    info.waiters.push_back(std::move(*waiter));
  }
  if (!parts[4].text.empty()) {
    info.last_run = run_from(parts[4].text);
    if (!info.last_run) return std::nullopt;
  }
  if (!parts[5].text.empty()) {
    info.last_success = run_from(parts[5].text);
    if (!info.last_success) return std::nullopt;
  }
  // What cannot be read does not count, and the claim itself is told of it.
  info.past.last = run_from(parts[9].text);
  info.past.last_success = run_from(parts[10].text);
  info.known = parts[6].integer == 1;
  info.refused = static_cast<std::uint64_t>(parts[7].integer);
  info.superseded = static_cast<std::uint64_t>(parts[8].integer);
  info.now = *now;
  info.mode = mode_from(parts[2]);
  const bool is_foreign = !info.holders.empty() && info.holders.front().foreign;
  rules::set_slots(info, is_foreign ? 1 : static_cast<unsigned>(parts[1].integer));
  return info;
}

std::optional<LockHistory> history_from(const Reply& reply, const LockName& lock) {
  const auto& parts = reply.elements;
  if (reply.kind != Reply::Kind::array || parts.size() != 3 ||
      parts[2].kind != Reply::Kind::array) {
    return std::nullopt;
  }
  const auto now = now_from(parts[0]);
  const auto holders = now ? holders_from(parts[1], *now) : std::nullopt;
  if (!holders) return std::nullopt;
  std::vector<RunInfo> runs;
  std::size_t damaged = 0;
  for (const auto& holder : *holders) {
    if (auto run = run_of(holder)) runs.push_back(std::move(*run));
  }
  for (const auto& record : parts[2].elements) {
    if (auto run = run_from(record.text)) {
      runs.push_back(std::move(*run));
    } else {
      ++damaged;
    }
  }
  return LockHistory{lock, as_history(std::move(runs), *now), *now, damaged};
}

std::string key_of(const LockName& lock) {
  return percent_encoded(lock.name_space) + ":{" + percent_encoded(lock.name) + "}";
}

std::optional<LockName> lock_of(std::string_view key) {
  const auto open = key.find(":{");
  if (open == std::string_view::npos) return std::nullopt;
  const auto close = key.find('}', open);
  if (close == std::string_view::npos) return std::nullopt;
  const auto behind = key.substr(close + 1);
  if (!behind.empty() && behind.front() != ':') return std::nullopt;
  if (behind.starts_with(":limit")) return std::nullopt;  // a limit's key, not a lock's
  const auto name_space = percent_decoded(key.substr(0, open));
  const auto name = percent_decoded(key.substr(open + 2, close - open - 2));
  if (!name_space || !name || name->empty()) return std::nullopt;
  return LockName{*name_space, *name};
}

std::string index_of(const std::string& name_space) {
  return percent_encoded(name_space) + ":locks";
}

std::string cursor_of(const std::string& name_space) {
  return index_of(name_space) + ":cursor";
}

std::optional<LockName> lock_in_index(const std::string& name_space,
                                      std::string_view element) {
  return lock_of(percent_encoded(name_space) + ":{" + std::string(element) + "}");
}

std::string pattern_for(const std::string& name_space) {
  // Percent-encoded text contains no character with a meaning in a pattern.
  return percent_encoded(name_space) + ":{*}*";
}

std::string channel_pattern_for(const std::string& name_space) {
  // ACL permissions for PSUBSCRIBE require exactly the pattern that was granted, so this
  // is the simplest one.
  return percent_encoded(name_space) + ":*";
}

}  // namespace dlock::redis
