#include "tests/contract/history_step.hpp"

#include <algorithm>

namespace dlock::against {
namespace {

const char* name_of(Act act) {
  switch (act) {
    case Act::ask: return "ask";
    case Act::release: return "release";
    case Act::renew: return "renew";
    case Act::take_away: return "break";
    case Act::remove_expired: return "tidy";
    case Act::inspect: return "inspect";
    case Act::history: return "history";
    case Act::reclaim: return "reclaim";
    case Act::save: return "save";
    case Act::go_back: return "go back";
  }
  return "";
}

// Only 20 are kept. If several runs vanish in one step, the order of their removal is not
// promised.
constexpr std::size_t compared_runs = 10;

bool is_end(const SeenEvent& event) {
  return event.kind == Event::Kind::released || event.kind == Event::Kind::expired ||
         event.kind == Event::Kind::lost;
}

}  // namespace

std::string text_of(const Step& step, const Contender& contender) {
  const auto& claim = contender.claim;
  auto text = number(step.now.count() / 1000) + " ms: " + name_of(step.act) + " by " +
              number(static_cast<std::int64_t>(contender.number)) +
              (claim.mode == Mode::shared ? " shared" : " exclusive") + " of " +
              number(claim.slots) + " ttl " + number(claim.ttl.count());
  if (!claim.attached) text += " detached";
  if (claim.min_hold.count() > 0) text += " min_hold " + number(claim.min_hold.count());
  if (claim.dedupe) {
    text += " dedupe " + number(claim.dedupe->window.count()) +
            (claim.dedupe->joins          ? " joins"
             : claim.dedupe->retry_failed ? " retries"
                                          : "");
  }
  if (claim.supersedes) text += " supersedes";
  if (claim.replaces) text += " replaces";
  if (claim.max_queue) text += " behind less than " + number(*claim.max_queue);
  for (const auto fence : claim.outer_fences)
    text += " below " + std::to_string(fence.number);
  if (step.queue == Queue::stay_out && step.act == Act::ask) text += " without waiting";
  if (step.queue == Queue::refuse && step.act == Act::ask) text += " for the last time";
  if (step.end) text += " ended with " + number(step.end->exit_code.value_or(-1));
  if (step.end && step.end->is_shared) text += " shared";
  if (step.end && step.end->lost) text += " lost";
  if (step.end && step.end->leaves_lease) text += " leaving";
  if (step.by_force) text += " by force";
  for (const auto fence : step.fences) text += " fence " + std::to_string(fence.number);
  return text;
}

std::string text_of(const rules::GrantId& grant) {
  if (grant.claim == Token{}) return "";
  return std::to_string(grant.fence.number) + ":" + text_of(grant.claim).substr(0, 16);
}

std::string text_of(const RunInfo& run) {
  auto text = std::to_string(run.fence.number) + " from " + number(run.started.count()) +
              " to " + number(run.ended.value_or(WallTime{}).count()) + " " + run.outcome;
  if (run.exit_code) text += " " + number(*run.exit_code);
  if (run.signal) text += " by " + *run.signal;
  return text + (run.reason.empty() ? "" : " for being " + run.reason);
}

std::string text_of(const std::optional<Taker>& taker) {
  if (!taker) return "";
  return " by " + taker->user + "@" + taker->host +
         (taker->replaces ? " replacing" : "") + (taker->forced ? " forcing" : "");
}

std::string text_of(const Event& event) {
  auto text = std::string(event_name(event.kind)) + " " +
              std::to_string(event.fence.number) + " of " + number(event.pid);
  if (event.run) text += ", ended with " + number(event.run->exit_code.value_or(-1));
  return text + text_of(event.taken_by);
}

std::vector<std::string> comparable(const std::vector<SeenEvent>& events,
                                    const std::set<pid_t>& dead) {
  const auto counts = [&](const SeenEvent& event) {
    return event.kind != Event::Kind::left || dead.count(event.pid) == 0;
  };
  const bool is_alone = std::count_if(events.begin(), events.end(), counts) == 1;
  const bool is_broken = std::any_of(
      events.begin(), events.end(),
      [](const SeenEvent& event) { return event.kind == Event::Kind::broken; });
  std::vector<std::string> lines;
  for (const auto& event : events) {
    if (!counts(event)) continue;
    if (is_end(event) && !is_broken)
      lines.push_back("an end, free " + number(event.free));
    const bool is_last =
        event.kind == Event::Kind::granted || event.kind == Event::Kind::queued;
    lines.push_back(event.text +
                    (is_last || is_alone ? ", free " + number(event.free) : ""));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::string text_of_holder(const HolderInfo& info) {
  auto text = std::to_string(info.fence.number) + " in " + number(info.slot) + " of " +
              number(info.pid) + " for " + number(info.held.count());
  if (!info.attached && info.expires_in)
    text += " ends " + number(info.expires_in->count());
  return text + (info.attached ? " attached" : "") + (info.run_ended ? " ended" : "") +
         (info.broken ? " broken" : "");
}

std::string text_of(const LockInfo& info) {
  auto text = std::string(info.mode == Mode::shared ? "shared" : "exclusive") + " of " +
              number(info.slots) + ", free " + number(info.free) + ", refused " +
              std::to_string(info.refused) + ", superseded " +
              std::to_string(info.superseded);
  for (const auto& holder : info.holders) text += "\n  holder " + text_of_holder(holder);
  for (const auto& waiter : info.waiters) {
    text += "\n  waiter " + number(waiter.pid) + " for " + number(waiter.waiting.count());
  }
  return text;
}

std::string text_of(const std::vector<RunInfo>& runs) {
  std::string text;
  for (std::size_t i = 0; i < std::min(compared_runs, runs.size()); ++i) {
    text += "\n  run " + text_of(runs[i]);
  }
  return text;
}

}  // namespace dlock::against
