#include "store/redis/answers.hpp"

#include <algorithm>
#include <initializer_list>

#include "lock/timing.hpp"
#include "store/redis/records.hpp"
#include "util/number.hpp"

namespace dlock::redis {
namespace {

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

std::optional<AskReply> ask_reply_from(const Reply& reply, const Claim& claim,
                                       Clock::time_point sent_at) {
  if (is_answer(reply, "granted", {Kind::string, Kind::integer})) {
    const auto grant =
        grant_of(reply.elements[1].text, reply.elements[2].integer, claim, sent_at);
    return grant ? std::optional<AskReply>(AskReply{*grant}) : std::nullopt;
  }
  if (is_answer(reply, "granted",
                {Kind::string, Kind::integer, Kind::string, Kind::string})) {
    auto grant =
        grant_of(reply.elements[1].text, reply.elements[2].integer, claim, sent_at);
    if (!grant || reply.elements[3].text != "broken") return std::nullopt;
    grant->broken = true;
    AskReply parsed{*grant};
    parsed.taken_by = taker_from(reply.elements[4].text);
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

std::optional<Grant> handed_over_from(const Reply& popped, const Claim& claim,
                                      Clock::time_point sent_at) {
  constexpr std::string_view word = "granted ";
  const auto* text = popped_text(popped);
  if (text == nullptr || text->compare(0, word.size(), word) != 0) return std::nullopt;
  return grant_of(text->substr(word.size()), 0, claim, sent_at);
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
