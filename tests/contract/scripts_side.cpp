#include "tests/contract/scripts_side.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <sstream>
#include <stdexcept>

#include "lock/lease.hpp"
#include "store/redis/node.hpp"
#include "store/redis/records.hpp"
#include "store/redis/redis_news.hpp"
#include "store/redis/script_calls.hpp"

namespace dlock::against {
namespace {

using redis::Reply;

struct HolderRecord {
  char mode = 'x', kind = 'h';
  std::uint64_t slot = 0, fence = 0;
  std::int64_t since = 0, ends = 0;
};

struct WaiterRecord {
  char mode = 'x';
  std::int64_t since = 0, until = 0;
  int state = 0;
};

std::map<std::string, std::string> pairs_of(const Reply& reply) {
  std::map<std::string, std::string> pairs;
  for (std::size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
    pairs[reply.elements[i].text] = reply.elements[i + 1].text;
  }
  return pairs;
}

Session session_of(const std::string& token) {
  return rules::number_of(token_from(token).value_or(Token{}));
}

std::string id_of(const Contender& contender) {
  std::array<char, 17> text{};
  std::to_chars(text.data(), text.data() + 16, contender.number, 16);
  return text.data();
}

// What is shown of a holder or waiter. The pid distinguishes them.
std::string party_text(const Contender& contender) {
  const auto& claim = contender.claim;
  return R"({"host":")" + host_of(contender.number) + R"(","pid":)" +
         number(static_cast<std::int64_t>(contender.number) + 1000) +
         (claim.priority != 0 ? R"(,"priority":)" + number(claim.priority) : "") +
         (claim.spreads ? R"(,"spread":true)" : "") +
         R"(,"user":"33","command":["./job"],"ttl_ms":)" + number(claim.ttl.count()) +
         "}";
}

// The elements of the reply of a script and the lines after it.
struct Shown {
  explicit Shown(const Reply& reply, WallTime at)
      : parts(reply.elements), now(at.count()) {
    if (parts.size() != 9) throw std::runtime_error("the script failed: " + reply.text);
    if (parts[0].is_error()) throw std::runtime_error(parts[0].text);
    for (const auto& [token, text] : pairs_of(parts[3])) holders[token] = record(text);
    for (const auto& [token, text] : pairs_of(parts[5])) {
      std::istringstream words(text);
      auto& waiter = waiters[token];
      words >> waiter.mode >> waiter.since >> waiter.until >> waiter.state;
    }
  }

  static HolderRecord record(const std::string& text) {
    HolderRecord h;
    std::istringstream words(text);
    words >> h.mode >> h.slot >> h.fence >> h.since >> h.ends >> h.kind;
    return h;
  }

  // Until when a record of a holder counts; nothing if it no longer does.
  std::optional<std::int64_t> ends(const std::string& token) const {
    const auto& value = parts[1].text;
    const auto& h = holders.at(token);
    if (value == token) return now + parts[2].integer * 1000;
    if (value == "dlock:shared" && h.ends > now) return h.ends;
    return std::nullopt;
  }
  bool is_dead(const std::string& token) const {
    const auto waiter = waiters.find(token);
    return waiter == waiters.end() || waiter->second.until <= now;
  }
  // Among the first `place` in the queue.
  std::int64_t dead_before(std::int64_t place) const {
    const auto first = parts[4].elements.begin();
    return std::count_if(first, first + place,
                         [&](const Reply& token) { return is_dead(token.text); });
  }

  const std::vector<Reply>& parts;
  std::int64_t now;
  std::map<std::string, HolderRecord> holders;
  std::map<std::string, WaiterRecord> waiters;
};

std::string or_zero(const std::string& count) { return count.empty() ? "0" : count; }

std::vector<std::string> state_of(const Shown& shown) {
  std::map<std::uint64_t, std::string> holders;  // by fence
  for (const auto& [token, h] : shown.holders) {
    const auto ends = shown.ends(token);
    if (h.kind == 'p' || !ends) continue;
    holders[h.fence] = "holder " + std::to_string(h.fence) + " " + h.mode + " " +
                       std::to_string(h.slot) + " since " + number(h.since) + " until " +
                       number(*ends) + (h.kind == 'e' ? " ended" : "") +
                       (h.kind == 'b' ? " broken" : "");
  }
  std::vector<std::string> lines;
  for (const auto& [fence, line] : holders) lines.push_back(line);
  for (const auto& element : shown.parts[4].elements) {
    const auto& token = element.text;
    if (shown.is_dead(token)) continue;
    const auto& waiter = shown.waiters.at(token);
    const auto h = shown.holders.find(token);
    const bool had_promise = h != shown.holders.end() && h->second.kind == 'p';
    const bool is_promised = had_promise && shown.ends(token);
    const bool is_passed = waiter.state == 1 || (had_promise && !is_promised);
    lines.push_back("waiter " + std::to_string(session_of(token)) + " " + waiter.mode +
                    " since " + number(waiter.since) + (is_promised ? " promised" : "") +
                    (is_passed ? " passed" : ""));
  }
  if (!lines.empty()) lines.push_back("slots " + shown.parts[6].elements[0].text);
  const auto& fence = shown.parts[6].elements[1].text;
  lines.push_back("fence " + or_zero(fence));
  lines.push_back("refused " + or_zero(shown.parts[6].elements[2].text));
  lines.push_back("superseded " + or_zero(shown.parts[6].elements[3].text));
  return lines;
}

// The sessions that get a message in their own lists, and what is published.
void read_messages(const Reply& said, Seen& seen) {
  for (std::size_t i = 0; i + 1 < said.elements.size(); i += 2) {
    const auto& to = said.elements[i].text;
    const auto& text = said.elements[i + 1].text;
    if (const auto list = to.find(":w:"); list != std::string::npos) {
      const Session who = std::stoull(to.substr(list + 3), nullptr, 16);
      const bool is_handed = text.starts_with("granted ");
      if (is_handed) seen.handed.insert(who);
      if (is_handed || text == "0") seen.told.insert(who);
    } else if (const auto broken = to.find(":b:"); broken != std::string::npos) {
      seen.orders.insert(Fence{std::stoull(to.substr(broken + 3))});
    } else if (const auto published = redis::published_from(to, text)) {
      const auto& event = published->event;
      if (!published->is_event) continue;
      seen.events.push_back({event.kind, text_of(event), event.free, event.pid});
    }
  }
}

std::string text_of_ask(const Shown& shown, const Reply& reply) {
  const auto& parts = reply.elements;
  const auto& word = parts.at(0).text;
  if (word == "granted") {
    return word + " " + parts.at(1).text + " in " + number(parts.at(2).integer) +
           (parts.size() > 4
                ? " " + parts[4].text + text_of(redis::taker_from(parts[5].text))
                : "") +
           " after " + parts.at(3).text;
  }
  if (word == "superseded") {
    const auto newer = redis::newer_from(parts.at(1).text);
    return word + " by " + newer.host + " " + std::to_string(newer.pid);
  }
  if (word == "above") return word + " " + parts.at(1).text;
  if (word == "slots") return word + " " + number(parts.at(1).integer);
  if (word == "deduplicated") {
    auto run = redis::run_from(std::string_view(parts.at(1).text).substr(2));
    if (!run) throw std::runtime_error("no run: " + parts.at(1).text);
    if (parts[1].text[0] == 'r') run->outcome = "running";
    return word + " by " + text_of(*run);
  }
  const auto holders = redis::holders_from(parts.at(5), WallTime(shown.now));
  if (word != "busy" || !holders) throw std::runtime_error("no answer: " + word);
  const auto place = parts[2].integer;
  const auto queued = parts[3].integer;
  auto text = "busy " + number(place - shown.dead_before(place)) + " among " +
              number(queued - shown.dead_before(queued));
  for (const auto& holder : *holders) text += "\n  " + text_of_holder(holder);
  return text;
}

std::string lost_or(const std::string& word) {
  return word == "gone" || word == "taken over" ? "lost" : word;
}

std::string text_of_answer(const Shown& shown, const Step& step) {
  const auto& reply = shown.parts[0];
  switch (step.act) {
    case Act::ask: return text_of_ask(shown, reply);
    case Act::release:
    case Act::renew:
    case Act::reclaim:
      return reply.kind == Reply::Kind::array
                 ? reply.elements.at(0).text + text_of(redis::taker_from(reply))
                 : lost_or(reply.text);
    case Act::save:
    case Act::go_back:
    case Act::remove_expired: return "";
    case Act::take_away: {
      std::string text;
      const auto broken = redis::broken_from(reply);
      if (!broken) throw std::runtime_error("no answer to a break");
      for (const auto& holder : *broken) text += "\n  " + text_of_holder(holder);
      return text;
    }
    case Act::inspect: {
      const auto info = redis::lock_from(reply, {"dlock", "job"});
      if (!info) throw std::runtime_error("no answer to a look");
      return text_of(*info);
    }
    case Act::history: break;
  }
  const auto history = redis::history_from(reply, {"dlock", "job"});
  if (!history || history->damaged > 0) throw std::runtime_error("no answer to a look");
  return text_of(history->runs);
}

std::vector<std::string> ask_args(const Step& step, const Contender& contender) {
  const auto& claim = contender.claim;
  std::string dedupe;
  if (claim.dedupe) {
    const auto& d = *claim.dedupe;
    dedupe = number(d.window.count()) + (d.joins ? " 2" : d.retry_failed ? " 1" : " 0");
  }
  std::string join = step.queue == Queue::join       ? "1"
                     : step.queue == Queue::stay_out ? "0"
                                                     : "2";
  if (claim.max_queue && step.queue == Queue::join)
    join += " " + number(*claim.max_queue);
  std::vector<std::string> args{
      text_of(claim.token),
      id_of(contender),
      std::string(claim.mode == Mode::shared ? "s" : "x") + (claim.attached ? "" : "d") +
          (claim.supersedes ? "n" : "") + (claim.replaces ? "r" : "") +
          (claim.spreads ? "h" : "") +
          (claim.priority != 0 ? "p" + number(claim.priority) : ""),
      number(claim.slots),
      number(claim.ttl.count()),
      join,
      party_text(contender),
      dedupe,
      "0",
      std::to_string(claim.fence_floor.number)};
  for (const auto fence : claim.outer_fences)
    args.push_back(std::to_string(fence.number));
  return args;
}

std::vector<std::string> release_args(const Step& step, const Contender& contender) {
  const auto& claim = contender.claim;
  const auto& end = step.end;
  auto verdict = Verdict::no_run;
  if (end && !end->lost) verdict = verdict_on(end->exit_code);
  std::vector<std::string> args{
      text_of(claim.token),
      id_of(contender),
      end ? redis::run_end_text(*end, "web1", "33") : "",
      "0",
      verdict == Verdict::succeeded ? "good"
      : verdict == Verdict::failed  ? "failed"
                                    : "none",
      number(claim.min_hold.count()),
      end && end->is_shared ? "1" : "0",
      end ? std::to_string(contender.grant->fence.number) : "0"};
  if (end && end->lost) {
    args.insert(args.end(), {party_text(contender), end->leaves_lease ? "1" : "0"});
  }
  return args;
}

// Keeps a copy of all keys of the lock, and makes it the state again.
constexpr const char* save_text = R"lua(
for _, old in ipairs(redis.call('KEYS', 'saved:' .. KEYS[1] .. '*')) do redis.call('DEL', old) end
for _, name in ipairs(redis.call('KEYS', KEYS[1] .. '*')) do
  redis.call('COPY', name, 'saved:' .. name)
end
return ''
)lua";
constexpr const char* go_back_text = R"lua(
for _, name in ipairs(redis.call('KEYS', KEYS[1] .. '*')) do redis.call('DEL', name) end
for _, name in ipairs(redis.call('KEYS', 'saved:' .. KEYS[1] .. '*')) do
  redis.call('COPY', name, string.sub(name, 7), 'REPLACE')
end
for _, over in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1] .. '>ends', '-inf', KEYS[2])) do
  redis.call('DEL', over)
end
return ''
)lua";

std::vector<std::string> reclaim_args(const Contender& contender) {
  const auto& claim = contender.claim;
  const auto& grant = *contender.grant;
  return {text_of(claim.token),      std::to_string(grant.fence.number),
          number(claim.ttl.count()), claim.mode == Mode::shared ? "s" : "x",
          number(claim.slots),       number(grant.slot),
          party_text(contender),     text_of(grant.after)};
}

}  // namespace

Loaded load_scripts(ClockedServer& server, const Replacement& replaced) {
  bool is_found = replaced.find.empty();
  const auto load = [&](const redis::Script& script) {
    const bool has_it =
        std::string_view(script.text).find(replaced.find) != std::string_view::npos;
    is_found = is_found || has_it;
    return server.load(script.text, has_it ? replaced : Replacement{});
  };
  Loaded loaded{load(redis::ask_script),     load(redis::release_script),
                load(redis::renew_script),   load(redis::set_lease_script),
                load(redis::break_script),   load(redis::remove_expired_script),
                load(redis::inspect_script), load(redis::history_script),
                load(redis::reclaim_script), server.load(save_text),
                server.load(go_back_text)};
  if (!is_found) throw std::runtime_error("in no script: " + std::string(replaced.find));
  return loaded;
}

redis::Command ScriptsSide::command(const Step& step, const Contender& contender) const {
  const auto call = [&](const std::string& script, const std::vector<std::string>& args) {
    return ClockedServer::call(script, redis::key_of(lock_), step.now, args);
  };
  const auto& claim = contender.claim;
  switch (step.act) {
    case Act::ask: return call(scripts_.ask, ask_args(step, contender));
    case Act::release: return call(scripts_.release, release_args(step, contender));
    case Act::take_away: {
      std::vector<std::string> args{R"({"host":"web9","user":"0"})",
                                    step.by_force ? "forced_by" : "broken_by"};
      for (const auto fence : step.fences) args.push_back(std::to_string(fence.number));
      return call(scripts_.take_away, args);
    }
    case Act::remove_expired: return call(scripts_.remove_expired, {});
    case Act::inspect: return call(scripts_.inspect, {});
    case Act::history: return call(scripts_.history, {});
    case Act::reclaim: return call(scripts_.reclaim, reclaim_args(contender));
    case Act::save: return call(scripts_.save, {});
    case Act::go_back: return call(scripts_.go_back, {});
    case Act::renew: break;
  }
  const auto token = text_of(claim.token);
  const auto ttl = number((step.shortens ? shortened(claim.ttl) : claim.ttl).count());
  if (!claim.attached) {
    return call(scripts_.set_lease,
                {token, claim.keeps_ttl ? "777" : ttl, claim.keeps_ttl ? "1" : "0"});
  }
  const auto fence = std::to_string(contender.grant->fence.number);
  return call(scripts_.renew, {token, fence, ttl});
}

Seen ScriptsSide::seen(const Reply& reply, const Step& step) const {
  if (reply.is_error()) throw std::runtime_error(reply.text);
  const Shown shown(reply, step.now);
  Seen seen;
  seen.answer = text_of_answer(shown, step);
  seen.state = state_of(shown);
  read_messages(shown.parts[8], seen);
  return seen;
}

}  // namespace dlock::against
