#include "store/redis/script_calls.hpp"

#include <algorithm>
#include <initializer_list>

#include "record/record_fields.hpp"
#include "store/redis/records.hpp"
#include "util/process.hpp"
#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock::redis {
namespace {

std::string mode_text(const Claim& claim) {
  return claim.mode == Mode::shared ? "s" : "x";
}

// The mode argument of ask.lua, followed by the flags of the claim.
std::string mode_and_options(const Claim& claim) {
  auto text = mode_text(claim);
  if (!claim.attached) text += 'd';
  if (claim.supersedes) text += 'n';
  if (claim.replaces) text += 'r';
  if (claim.spreads) text += 'h';
  if (claim.priority != 0) text += "p" + std::to_string(claim.priority);
  return text;
}

std::string queue_text(Queue queue, const Claim& claim) {
  if (queue != Queue::join) return queue == Queue::refuse ? "2" : "0";
  return claim.max_queue ? "1 " + std::to_string(*claim.max_queue) : "1";
}

std::string place_in_queue(std::int64_t arrived, const std::optional<Ballot>& ballot) {
  if (!ballot || ballot->ticket == 0) return std::to_string(arrived);
  return "=" + std::to_string(ballot->ticket);
}

std::string fence_wanted(Fence fence_floor, const std::optional<Ballot>& ballot) {
  if (!ballot) return std::to_string(fence_floor.number);
  const auto* kind = ballot->is_repair ? "!" : ballot->raises ? "^" : "=";
  return kind + std::to_string(ballot->fence.number);
}

// How long the server keeps a lease, in milliseconds.
std::string lease_time(const Claim& claim) {
  return std::to_string((claim.ttl + claim.lock_delay).count());
}

std::string dedupe_text(const std::optional<Dedupe>& dedupe) {
  if (!dedupe) return "";
  const auto* kind = dedupe->joins ? " 2" : dedupe->retry_failed ? " 1" : " 0";
  return std::to_string(dedupe->as_of_now().window.count()) + kind;
}

std::string verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::succeeded: return "good";
    case Verdict::failed: return "failed";
    case Verdict::no_run: break;
  }
  return "none";
}

using Kind = Reply::Kind;

// Whether `reply` is an array of a word and elements of these kinds, and no more.
bool is_answer(const Reply& reply, const char* word, std::initializer_list<Kind> rest) {
  if (reply.kind != Kind::array || reply.elements.size() != rest.size() + 1 ||
      reply.elements[0].kind != Kind::string || reply.elements[0].text != word) {
    return false;
  }
  auto element = reply.elements.begin();
  for (const auto kind : rest) {
    if ((++element)->kind != kind) return false;
  }
  return true;
}

// Greater than 0.
std::optional<std::uint64_t> positive_in(std::string_view text) {
  const auto number = dlock::number_in<std::uint64_t>(text);
  return number && *number > 0 ? number : std::nullopt;
}

std::optional<Grant> grant_of(const std::string& fence_text, std::int64_t slot,
                              const Claim& claim, Clock::time_point sent_at) {
  const auto fence = positive_in(fence_text);
  if (!fence || *fence > greatest_fence.number) return std::nullopt;
  if (slot < 0 || slot >= std::int64_t{claim.slots}) return std::nullopt;
  Grant grant;
  grant.fence.number = *fence;
  grant.slot = static_cast<unsigned>(slot);
  grant.sent_at = sent_at;
  grant.deadline = LeaseTiming(claim.ttl, {}, {}).deadline(sent_at);
  return grant;
}

// What grant_id() in state.lua names a grant, or nothing where it is not known.
bool is_grant_id(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == text.npos) return text.empty();
  const auto is_hex = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  };
  const auto claim = text.substr(colon + 1);
  return positive_in(text.substr(0, colon)) && claim.size() == 16 &&
         std::ranges::all_of(claim, is_hex);
}

// No server keeps a key for longer.
constexpr milliseconds longest_ttl{std::int64_t{1} << 53};

// The element popped from a waiter's list; nothing if the reply is not one.
const std::string* popped_text(const Reply& popped) {
  if (popped.kind != Kind::array || popped.elements.size() != 2) return nullptr;
  return &popped.elements[1].text;
}

// The server's time.
std::optional<WallTime> time_from(const Reply& reply) {
  const auto now = positive_in(reply.text);
  if (!now || *now > std::uint64_t{1} << 53u) return std::nullopt;
  return WallTime(static_cast<std::int64_t>(*now));
}

// For how long a waiter can be parked; ask.lua returns it as a negative number in the
// place of `blocked for`.
constexpr milliseconds shortest_parking{1000};
constexpr milliseconds longest_parking{600'000};

std::optional<AskReply> busy(const Reply& reply) {
  const auto& parts = reply.elements;
  const auto now = time_from(parts[1]);
  if (!now || parts[2].integer < 0 || parts[3].integer < 0) return std::nullopt;
  auto holders = holders_from(parts[5], *now);
  if (!holders) return std::nullopt;
  Busy busy;
  busy.holders = std::move(*holders);
  busy.place = static_cast<std::size_t>(parts[2].integer);
  busy.queued = static_cast<std::size_t>(parts[3].integer);
  AskReply parsed{std::move(busy), parts[4].integer, *now};
  if (parsed.blocked_for <= -shortest_parking.count()) {
    parsed.parked_for =
        milliseconds(-std::max(parsed.blocked_for, -longest_parking.count()));
    parsed.blocked_for = others_watch;
  }
  return parsed;
}

// "r" for a running run or "e" for one that has ended, followed by its record.
std::optional<AskReply> deduplicated(const std::string& text) {
  const auto kind = text.substr(0, 2);
  if (kind != "r " && kind != "e ") return std::nullopt;
  auto run = run_from(std::string_view(text).substr(kind.size()));
  if (!run) return std::nullopt;
  if (kind == "r ") run->outcome = "running";
  return AskReply{Deduplicated{std::move(*run)}};
}

bool says(const Reply& reply, const char* word) {
  return reply.kind == Kind::string && reply.text == word;
}

// The same with the holder as shown by `status`.
bool is_broken(const Reply& reply) { return is_answer(reply, "broken", {Kind::string}); }

}  // namespace

std::string party_text(const Claim& claim) {
  record::RedisParty party{own_party(claim), claim.priority, claim.spreads, claim.for_pid,
                           std::nullopt};
  if (!claim.attached) party.ttl = claim.ttl;
  return record::json_of<record::redis>(party);
}

std::string taker_text() { return record::json_of<record::redis>(own_taker(false)); }

std::string run_end_text(const RunEnd& end, const std::string& host,
                         const std::string& user, const Claim& claim) {
  RunInfo run;
  run.host = host;
  run.user = user;
  run.Description::operator=(claim);
  run.period = claim.period;
  set_end(run, end);
  return record::json_of<record::redis>(run);
}

std::vector<std::string> ask_arguments(const Claim& claim, Queue queue,
                                       const std::string& waiter_id, std::int64_t arrived,
                                       Fence fence_floor,
                                       const std::optional<Ballot>& ballot) {
  std::vector<std::string> arguments{text_of(claim.token),
                                     waiter_id,
                                     mode_and_options(claim),
                                     std::to_string(claim.slots),
                                     lease_time(claim),
                                     queue_text(queue, claim),
                                     party_text(claim),
                                     dedupe_text(claim.dedupe),
                                     place_in_queue(arrived, ballot),
                                     fence_wanted(fence_floor, ballot)};
  for (const auto& fence : claim.outer_fences) {
    arguments.push_back(std::to_string(fence.number));
  }
  return arguments;
}

std::vector<std::string> release_arguments(const Claim& claim,
                                           const std::optional<RunEnd>& end,
                                           const std::string& waiter_id, Fence fence,
                                           bool may_come_late) {
  std::vector<std::string> arguments{
      text_of(claim.token),
      waiter_id,
      end ? run_end_text(*end, host_name(), own_user(), claim) : "",
      may_come_late ? std::to_string(comes_late_by.count()) : "0",
      verdict_text(end && !end->lost ? verdict_on(end->exit_code) : Verdict::no_run),
      std::to_string(claim.min_hold.count()),
      end && end->is_shared ? "1" : "0",
      end ? std::to_string(fence.number) : "0"};
  if (end && end->lost) {
    arguments.push_back(party_text(claim));
    arguments.push_back(end->leaves_lease ? "1" : "0");
  }
  return arguments;
}

std::vector<std::string> revoke_arguments(const Claim& claim,
                                          const std::string& waiter_id, Fence fence) {
  return {text_of(claim.token),          waiter_id, "",  "0",
          verdict_text(Verdict::no_run), "0",       "v", std::to_string(fence.number)};
}

std::vector<std::string> renew_arguments(const Claim& claim, Fence fence) {
  if (!claim.attached) {
    return {text_of(claim.token), std::to_string(claim.ttl.count()),
            claim.keeps_ttl ? "1" : "0"};
  }
  return {text_of(claim.token), std::to_string(fence.number), lease_time(claim)};
}

std::vector<std::string> reclaim_arguments(const Claim& claim, const Grant& grant,
                                           const std::string& after) {
  return {text_of(claim.token),        std::to_string(grant.fence.number),
          lease_time(claim),           mode_text(claim),
          std::to_string(claim.slots), std::to_string(grant.slot),
          party_text(claim),           after};
}

std::optional<AskReply> ask_reply_from(const Reply& reply, const Claim& claim,
                                       Clock::time_point sent_at) {
  constexpr auto text = Kind::string;
  const bool comes_broken =
      is_answer(reply, "granted", {text, Kind::integer, text, text, text});
  if (comes_broken || is_answer(reply, "granted", {text, Kind::integer, text})) {
    auto grant =
        grant_of(reply.elements[1].text, reply.elements[2].integer, claim, sent_at);
    if (!grant || !is_grant_id(reply.elements[3].text)) return std::nullopt;
    if (comes_broken && reply.elements[4].text != "broken") return std::nullopt;
    grant->broken = comes_broken;
    AskReply parsed{*grant};
    parsed.after = reply.elements[3].text;
    if (comes_broken) parsed.taken_by = taker_from(reply.elements[5].text);
    return parsed;
  }
  if (is_answer(
          reply, "busy",
          {Kind::string, Kind::integer, Kind::integer, Kind::integer, Kind::array})) {
    return busy(reply);
  }
  if (is_answer(reply, "above", {Kind::string})) {
    const auto fence = positive_in(reply.elements[1].text);
    if (fence) return AskReply{HeldByOuterRun{Fence{*fence}}};
  }
  if (is_answer(reply, "slots", {Kind::integer})) {
    const auto slots = reply.elements[1].integer;
    if (slots > 0 && slots <= UINT32_MAX) {
      return AskReply{SlotsDiffer{static_cast<unsigned>(slots)}};
    }
  }
  if (is_answer(reply, "deduplicated", {Kind::string})) {
    return deduplicated(reply.elements[1].text);
  }
  if (is_answer(reply, "superseded", {Kind::string})) {
    return AskReply{newer_from(reply.elements[1].text)};
  }
  return std::nullopt;
}

std::optional<milliseconds> renewed_ttl_from(const Reply& reply) {
  if (!is_answer(reply, "renewed", {Kind::integer})) return std::nullopt;
  const milliseconds ttl(reply.elements[1].integer);
  return ttl.count() > 0 && ttl <= longest_ttl ? std::optional(ttl) : std::nullopt;
}

std::optional<Renewal> renewal_from(const Reply& reply) {
  if (says(reply, "renewed") || renewed_ttl_from(reply)) return Renewal::confirmed;
  if (is_broken(reply)) return Renewal::broken;
  if (says(reply, "reclaimed")) return Renewal::reclaimed;
  if (says(reply, "taken over")) return Renewal::taken_over;
  if (says(reply, "gone")) return Renewal::gone;
  return std::nullopt;
}

std::optional<Release> release_from(const Reply& reply) {
  if (says(reply, "released")) return Release::released;
  if (says(reply, "not ours")) return Release::not_ours;
  if (says(reply, "taken over")) return Release::taken_over;
  if (says(reply, "gone")) return Release::gone;
  if (is_broken(reply)) return Release::broken;
  return std::nullopt;
}

std::optional<Taker> taker_from(const Reply& reply) {
  return is_broken(reply) ? taker_from(reply.elements[1].text) : std::nullopt;
}

std::optional<Admission> admission_from(const Reply& reply) {
  if (says(reply, "admitted")) return Admission::admitted;
  if (says(reply, "stale")) return Admission::stale;
  return std::nullopt;
}

std::optional<std::vector<HolderInfo>> broken_from(const Reply& reply) {
  const auto& parts = reply.elements;
  if (reply.kind != Kind::array || parts.size() != 2) return std::nullopt;
  const auto now = time_from(parts[0]);
  return now ? holders_from(parts[1], *now) : std::nullopt;
}

std::optional<milliseconds> pause_from(const Reply& popped) {
  const auto* text = popped_text(popped);
  constexpr std::uint64_t longest = 1'000'000'000;
  const auto pause = text != nullptr ? positive_in(*text) : std::nullopt;
  if (!pause || *pause > longest) return std::nullopt;
  return milliseconds(*pause);
}

std::optional<AskReply> handed_over_from(const Reply& popped, const Claim& claim,
                                         Clock::time_point sent_at) {
  constexpr std::string_view word = "granted ";
  const auto* text = popped_text(popped);
  if (text == nullptr || text->compare(0, word.size(), word) != 0) return std::nullopt;
  const auto end = std::min(text->find(' ', word.size()), text->size());
  const auto fence = text->substr(word.size(), end - word.size());
  const auto grant = grant_of(fence, 0, claim, sent_at);
  AskReply handed{grant.value_or(Grant{})};
  handed.after = text->substr(std::min(end + 1, text->size()));
  return grant && is_grant_id(handed.after) ? std::optional(handed) : std::nullopt;
}

std::optional<RateAnswer> rate_answer_from(const Reply& reply) {
  constexpr auto number = Kind::integer;
  const auto count = [&](std::size_t at) { return reply.elements[at].integer; };
  const auto is_count = [&](std::size_t at) {
    return count(at) >= 0 && count(at) <= UINT32_MAX;
  };
  const auto is_span = [&](std::size_t at) {
    return count(at) >= 0 && count(at) <= std::int64_t{1} << 53u;
  };
  if (is_answer(reply, "admitted", {number, number}) && is_count(1) && is_span(2)) {
    return Admitted{static_cast<unsigned>(count(1)), milliseconds(count(2))};
  }
  if (is_answer(reply, "later", {number, number, number}) && is_count(1) && is_span(2)) {
    return NotAdmitted{static_cast<unsigned>(count(1)), milliseconds(count(2)),
                       count(3) == 1};
  }
  if (is_answer(reply, "differs", {number, number}) && is_count(1) && is_span(2)) {
    return RateDiffers{{static_cast<unsigned>(count(1)), milliseconds(count(2))}};
  }
  return std::nullopt;
}

}  // namespace dlock::redis
