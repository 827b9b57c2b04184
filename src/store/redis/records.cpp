#include "store/redis/records.hpp"

#include <unistd.h>

#include <charconv>
#include <cmath>

#include "lock/history.hpp"
#include "util/host.hpp"
#include "util/json.hpp"
#include "util/json_line.hpp"
#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock::redis {
namespace {

// Takes words off the front of a record.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  std::string_view next() {
    const auto end = std::min(text_.find(' '), text_.size());
    const auto word = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    return word;
  }
  std::optional<std::int64_t> number() {
    const auto word = next();
    std::int64_t value = 0;
    const auto* last = word.data() + word.size();
    const auto [end, error] = std::from_chars(word.data(), last, value);
    // No number in a script is beyond 2^53.
    const bool usable = error == std::errc() && end == last && value >= 0 &&
                        value <= (std::int64_t{1} << 53);
    return usable ? std::optional(value) : std::nullopt;
  }
  std::string_view rest() const { return text_; }

 private:
  std::string_view text_;
};

Json object_from(std::string_view text) {
  auto json = Json::parse(text, nullptr, false);
  return json.is_object() ? json : Json::object();
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
  Words words(record.text);
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
  info.kept = kind == "e";
  info.broken = kind == "b";
  info.attached = kind == "h" || kind == "b";
  const auto party = object_from(words.rest());
  info.slot = static_cast<unsigned>(*slot);
  info.fence.number = static_cast<std::uint64_t>(*fence);
  info.since = WallTime(*since);
  info.held = between(info.since, now);
  info.host = text_at(party, "host");
  info.pid = pid_at(party, "pid");
  info.user = text_at(party, "user");
  info.label = text_at(party, "label");
  info.command = words_at(party, "command");
  return info;
}

// What `end` says of how a run ended.
void fill_end(RunInfo& run, const Json& end) {
  run.host = text_at(end, "host");
  if (const auto duration = count_at(end, "duration_ms")) {
    run.duration = milliseconds(*duration);
  }
  run.exit_code = exit_code_at(end, "exit_code");
  if (const auto signal = text_at(end, "signal"); !signal.empty()) run.signal = signal;
  run.outcome = text_at(end, "outcome");
  run.reason = text_at(end, "reason");
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Of a holder's record; exclusive for a foreign one.
Mode mode_from(const Reply& pairs) {
  const bool shared =
      !pairs.elements.empty() && pairs.elements.front().text.substr(0, 2) == "s ";
  return shared ? Mode::shared : Mode::exclusive;
}

}  // namespace

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
  if (behind.starts_with(":limit")) return std::nullopt;  // has no lock beside it
  const auto name_space = percent_decoded(key.substr(0, open));
  const auto name = percent_decoded(key.substr(open + 2, close - open - 2));
  if (!name_space || !name || name->empty()) return std::nullopt;
  return LockName{*name_space, *name};
}

std::string pattern_for(const std::string& name_space) {
  // Nothing that percent_encoded leaves as it is means anything in a pattern.
  return percent_encoded(name_space) + ":{*}*";
}

std::string channel_pattern_for(const std::string& name_space) {
  // Rights on channels are given by patterns, and one that is asked for has to be
  // the same as one that is allowed: this is the simplest.
  return percent_encoded(name_space) + ":*";
}

// "granted FENCE LASTS FREE TIME PARTY", and behind a line break how a run ended.
std::optional<Published> published_from(std::string_view channel, std::string_view text) {
  const auto lock = lock_of(channel);
  Words words(text);
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
  const auto party = object_from(words.rest().substr(0, split));
  event.host = text_at(party, "host");
  event.pid = pid_at(party, "pid");
  event.label = text_at(party, "label");
  event.command = words_at(party, "command");
  const auto end = object_from(words.rest().substr(split));
  if (!end.empty()) {
    event.run.emplace();
    event.run->ended = event.time;
    fill_end(*event.run, end);
  }
  return published;
}

std::string party_text(const Claim& claim) {
  // Looked up once: one that has waited has something better to do when its turn comes.
  static const std::string user = user_name(::geteuid());
  JsonLine party;
  party.add_text("host", host_name());
  party.add_number("pid", claim.on_behalf_of != 0 ? claim.on_behalf_of : ::getpid());
  party.add_text("user", user);
  party.add_texts("command", claim.command);
  if (!claim.label.empty()) party.add_text("label", claim.label);
  return party.finished();
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

std::optional<WaiterInfo> waiter_from(std::string_view record, WallTime now) {
  Words words(record);
  const auto mode = words.next();
  const auto since = words.number();
  const auto until = words.number();
  const auto passed = words.number();
  words.next();  // for how long the lease would be
  words.next();  // its list
  if ((mode != "x" && mode != "s") || !since || !until || !passed) return std::nullopt;
  const auto party = object_from(words.rest());
  WaiterInfo info;
  info.since = WallTime(*since);
  info.waiting = between(info.since, now);
  info.host = text_at(party, "host");
  info.pid = pid_at(party, "pid");
  info.user = text_at(party, "user");
  return info;
}

std::optional<RunInfo> run_from(std::string_view record) {
  Words words(record);
  const auto fence = words.number();
  const auto started = words.number();
  const auto ended = words.number();
  if (!fence || !started || !ended) return std::nullopt;
  const auto end = object_from(words.rest());
  RunInfo run;
  run.fence.number = static_cast<std::uint64_t>(*fence);
  run.started = WallTime(*started);
  run.host = text_at(end, "host");
  if (*ended == 0) {
    run.outcome = "vanished";
    return run;
  }
  run.ended = WallTime(*ended);
  fill_end(run, end);
  return run;
}

std::optional<LockInfo> lock_from(const Reply& reply, const LockName& lock) {
  const auto& parts = reply.elements;
  if (reply.kind != Reply::Kind::array || parts.size() != 5 ||
      parts[1].kind != Reply::Kind::integer || parts[3].kind != Reply::Kind::array ||
      parts[1].integer < 1 || parts[1].integer > UINT32_MAX) {
    return std::nullopt;
  }
  const auto now = Words(parts[0].text).number();
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
  info.mode = mode_from(parts[2]);
  const bool in_use = !info.holders.empty() || !info.waiters.empty();
  const bool foreign = !info.holders.empty() && info.holders.front().foreign;
  info.slots = in_use && !foreign ? static_cast<unsigned>(parts[1].integer) : 1;
  const auto taken = info.mode == Mode::shared ? info.slots : info.holders.size();
  info.free =
      info.slots - static_cast<unsigned>(std::min<std::size_t>(taken, info.slots));
  return info;
}

std::optional<std::vector<RunInfo>> history_from(const Reply& reply) {
  const auto& parts = reply.elements;
  if (reply.kind != Reply::Kind::array || parts.size() != 3 ||
      parts[2].kind != Reply::Kind::array) {
    return std::nullopt;
  }
  const auto now = Words(parts[0].text).number();
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
  return as_history(std::move(runs), WallTime(*now));
}

std::string run_end_text(const RunEnd& end, const std::string& host) {
  JsonLine json;
  json.add_text("host", host);
  json.add_text("outcome", end.outcome);
  json.add_number("duration_ms", end.duration.count());
  if (end.exit_code) json.add_number("exit_code", *end.exit_code);
  if (end.signal) json.add_text("signal", *end.signal);
  if (end.lost) json.add_text("reason", loss_name(*end.lost));
  return json.finished();
}

Failure failure_from(const Reply& error, const std::string& server) {
  const auto& text = error.text;
  const auto code = error.error_code();
  const auto said = server + ": " + printable(text, 200);
  // Inside a script the code of what failed stands in the middle of the text, and rights
  // that are missing have none at all: up to Redis 7.0 the user "can't", later it is an
  // "ACL failure".
  if (code == "NOAUTH" || code == "WRONGPASS" || code == "NOPERM" ||
      has(text, "NOPERM") || has(text, "The user executing the script can't") ||
      has(text, "ACL failure in script") || has(text, "Authentication required")) {
    return Failure(Failure::Kind::rejected, said);
  }
  // A stranger may send little at once, and is only told that this is more.
  if (has(text, "unauthenticated")) {
    return Failure(Failure::Kind::rejected, server + ": NOAUTH Authentication required");
  }
  if (has(text, "WRONGTYPE")) {
    return Failure(Failure::Kind::misconfigured,
                   server + ": the lock's key holds something that is no lock: " +
                       printable(text, 100));
  }
  if (code == "MOVED" || code == "ASK" || code == "CROSSSLOT") {
    return Failure(Failure::Kind::misconfigured,
                   server + " is a node of a cluster, which redis: does not do");
  }
  if (has(text, "unknown command") || has(text, "Unknown Redis command") ||
      has(text, "nknown subcommand")) {
    return Failure(Failure::Kind::misconfigured,
                   said + " (dlock needs Redis 6.2, Valkey 7.2 or later)");
  }
  return Failure(Failure::Kind::unreachable, said);
}

}  // namespace dlock::redis
