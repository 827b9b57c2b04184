#include "store/redis/records.hpp"

#include <algorithm>

#include "lock/history.hpp"
#include "store/redis/keys.hpp"
#include "store/redis/record_words.hpp"
#include "util/json.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

// An empty one if the text is not a proper one: the rest of a record still counts.
Json party_in(std::string_view text) {
  return object_from(text).value_or(Json::object());
}

// Written by taking.lua.
std::optional<Taker> taker_in(const Json& party) {
  for (const std::string_view how : {"forced_by", "broken_by", "replaced_by"}) {
    const auto taker = party.find(how);
    if (taker == party.end() || !taker->is_object()) continue;
    return Taker{text_at(*taker, "user"), text_at(*taker, "host"), how == "replaced_by",
                 how == "forced_by"};
  }
  return std::nullopt;
}

milliseconds between(WallTime start, WallTime end) {
  return std::chrono::duration_cast<milliseconds>(std::max(end - start, WallTime(0)));
}

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
  const auto mode = words.next();
  const auto slot = words.number();
  const auto fence = words.number();
  const auto since = words.number();
  const auto ends = words.number();
  const auto kind = words.next();
  if ((mode != "x" && mode != "s") || !slot || !fence || !since || !ends ||
      (kind != "h" && kind != "d" && kind != "e" && kind != "b")) {
    return std::nullopt;
  }
  info.run_ended = kind == "e";
  info.broken = kind == "b";
  info.attached = kind == "h" || kind == "b";
  const auto party = party_in(words.rest());
  info.slot = static_cast<unsigned>(*slot);
  info.fence.number = static_cast<std::uint64_t>(*fence);
  info.since = WallTime(*since);
  info.held = between(info.since, now);
  info.host = text_at(party, "host");
  info.pid = pid_at(party, "pid");
  info.for_pid = flag_at(party, "for_pid");
  info.user = text_at(party, "user");
  info.label = text_at(party, "label");
  info.command = words_at(party, "command");
  return info;
}

// Fills in how a run ended, from its JSON `end`.
void fill_end(RunInfo& run, const Json& end) {
  run.host = text_at(end, "host");
  run.user = text_at(end, "user");
  if (const auto duration = count_at(end, "duration_ms")) {
    run.duration = milliseconds(*duration);
  }
  run.exit_code = exit_code_at(end, "exit_code");
  if (const auto signal = text_at(end, "signal"); !signal.empty()) run.signal = signal;
  run.outcome = text_at(end, "outcome");
  run.reason = text_at(end, "reason");
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
  const auto fence = words.number();
  const auto lasts = words.number();
  const auto free = words.number();
  const auto time = words.number();
  if (!lock || !channel.ends_with("}:e") || !kind || !fence || !lasts || !free || !time) {
    return std::nullopt;
  }
  Published published;
  published.lasts = milliseconds(*lasts);
  published.is_event = !is_kept;
  auto& event = published.event;
  event.time = WallTime(*time);
  event.kind = *kind;
  event.lock = *lock;
  event.fence.number = static_cast<std::uint64_t>(*fence);
  event.free = static_cast<unsigned>(std::min<std::int64_t>(*free, UINT32_MAX));
  const auto split = std::min(words.rest().find('\n'), words.rest().size());
  const auto party = party_in(words.rest().substr(0, split));
  event.host = text_at(party, "host");
  event.pid = pid_at(party, "pid");
  event.user = text_at(party, "user");
  event.label = text_at(party, "label");
  event.command = words_at(party, "command");
  if (event.kind == Event::Kind::broken) event.taken_by = taker_in(party);
  const auto end = party_in(words.rest().substr(split));
  if (!end.empty()) {
    event.run.emplace();
    event.run->ended = event.time;
    fill_end(*event.run, end);
  }
  return published;
}

std::optional<Taker> taker_from(std::string_view text) {
  return taker_in(party_in(text));
}

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
  std::sort(holders.begin(), holders.end(),
            [](const HolderInfo& a, const HolderInfo& b) { return a.fence < b.fence; });
  return holders;
}

WaiterInfo party_from(std::string_view text) {
  const auto party = party_in(text);
  WaiterInfo info;
  info.host = text_at(party, "host");
  info.pid = pid_at(party, "pid");
  return info;
}

std::optional<WaiterInfo> waiter_from(std::string_view record, WallTime now) {
  RecordWords words(record);
  const auto mode = words.next();
  const auto since = words.number();
  const auto until = words.number();
  const auto passed = words.number();
  words.next();  // the ttl of the lease
  words.next();  // its list
  if ((mode != "x" && mode != "s") || !since || !until || !passed) return std::nullopt;
  const auto party = party_in(words.rest());
  WaiterInfo info;
  info.since = WallTime(*since);
  info.waiting = between(info.since, now);
  info.host = text_at(party, "host");
  info.pid = pid_at(party, "pid");
  info.user = text_at(party, "user");
  return info;
}

std::optional<RunInfo> run_from(std::string_view record) {
  RecordWords words(record);
  const auto fence = words.number();
  const auto started = words.number();
  const auto ended = words.number();
  if (!fence || !started || !ended) return std::nullopt;
  // A detached lease has a letter, and then its holder.
  const bool was_by_hand = words.rest().starts_with("h ");
  if (was_by_hand) words.next();
  const auto end = party_in(words.rest());
  RunInfo run;
  run.fence.number = static_cast<std::uint64_t>(*fence);
  run.started = WallTime(*started);
  if (*ended != 0) run.ended = WallTime(*ended);
  if (run.ended && !was_by_hand) {
    fill_end(run, end);
    if (const auto taker = taker_in(end); taker && taker->forced) {
      run.reason = forced_reason(*taker);
      // Unless the holder has reported its end since.
      if (run.outcome.empty()) {
        run.outcome = lost_run;
        run.duration = between(run.started, *run.ended);
      }
    }
    return run;
  }
  run.host = text_at(end, "host");
  run.user = text_at(end, "user");
  run.outcome = was_by_hand ? by_hand : "vanished";
  if (run.ended) run.duration = between(run.started, *run.ended);
  return run;
}

std::optional<LockInfo> lock_from(const Reply& reply, const LockName& lock) {
  const auto& parts = reply.elements;
  if (reply.kind != Reply::Kind::array || parts.size() != 9 ||
      parts[1].kind != Reply::Kind::integer || parts[6].kind != Reply::Kind::integer ||
      !is_count(parts[7]) || !is_count(parts[8]) || parts[3].kind != Reply::Kind::array ||
      parts[1].integer < 1 || parts[1].integer > UINT32_MAX) {
    return std::nullopt;
  }
  const auto now = RecordWords(parts[0].text).number();
  if (!now) return std::nullopt;
  auto holders = holders_from(parts[2], WallTime(*now));
  if (!holders) return std::nullopt;
  LockInfo info;
  info.lock = lock;
  info.holders = std::move(*holders);
  for (const auto& record : parts[3].elements) {
    auto waiter = waiter_from(record.text, WallTime(*now));
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
  info.known = parts[6].integer == 1;
  info.refused = static_cast<std::uint64_t>(parts[7].integer);
  info.superseded = static_cast<std::uint64_t>(parts[8].integer);
  info.now = WallTime(*now);
  info.mode = mode_from(parts[2]);
  const bool in_use = !info.holders.empty() || !info.waiters.empty();
  const bool foreign = !info.holders.empty() && info.holders.front().foreign;
  info.slots = in_use && !foreign ? static_cast<unsigned>(parts[1].integer) : 1;
  const auto taken = info.mode == Mode::shared ? info.slots : info.holders.size();
  info.free =
      info.slots - static_cast<unsigned>(std::min<std::size_t>(taken, info.slots));
  return info;
}

std::optional<LockHistory> history_from(const Reply& reply, const LockName& lock) {
  const auto& parts = reply.elements;
  if (reply.kind != Reply::Kind::array || parts.size() != 3 ||
      parts[2].kind != Reply::Kind::array) {
    return std::nullopt;
  }
  const auto now = RecordWords(parts[0].text).number();
  const auto holders = now ? holders_from(parts[1], WallTime(*now)) : std::nullopt;
  if (!holders) return std::nullopt;
  std::vector<RunInfo> runs;
  for (const auto& holder : *holders) {
    if (auto run = run_of(holder)) runs.push_back(std::move(*run));
  }
  for (const auto& record : parts[2].elements) {
    auto run = run_from(record.text);
    if (!run) return std::nullopt;
    runs.push_back(std::move(*run));
  }
  return LockHistory{lock, as_history(std::move(runs), WallTime(*now)), WallTime(*now)};
}

}  // namespace dlock::redis
