// Plays scenes with the granting rules.

#include "tests/unit/rules_scenes.hpp"

#include <map>

#include "record/states.hpp"
#include "rules/keeping.hpp"
#include "tests/run_end.hpp"
#include "tests/scene.hpp"
#include "tests/unit/lock_by_hand.hpp"

namespace dlock::rules {
namespace {

using scene::Facts;
using scene::Term;
using scene::Words;
using scene::yes_or_no;

std::string text_of(const std::vector<Session>& all) {
  std::string text;
  for (const auto one : all) text += (text.empty() ? "" : ",") + std::to_string(one);
  return text;
}

std::string whole_milliseconds_of(Clock::duration time) {
  return std::to_string(std::chrono::duration_cast<milliseconds>(time).count());
}

class RulesScene final : public scene::Play, private LockByHand {
 public:
  RulesScene(std::string steps, bool by_clock)
      : Play(std::move(steps)), by_clock_(by_clock) {}

 private:
  bool is_played(const Words& words) override {
    const Term action(words[0]);
    if (action.name == "server") {
      if (words.at(1) == "copies") copy_ = state;
      state = words[1] == "returns" ? copy_ : words[1] == "forgets" ? State() : state;
      return true;
    }
    if (action.name != "pass") return false;
    const bool just_before = words.at(1).ends_with("-1ns");
    const auto text = words[1].substr(0, words[1].size() - (just_before ? 4 : 0));
    const auto time = scene::time_in(text) - nanoseconds(just_before ? 1 : 0);
    const auto clock = action.options.empty() ? "" : action.options[0].first;
    if (clock != "wall") now.boot += time;
    if (clock != "boot") now.wall += std::chrono::duration_cast<WallTime>(time);
    return true;
  }

  Fence fence_of(const std::string& whom) const override {
    const auto found = fences_.find(whom);
    if (found != fences_.end()) return found->second;
    if (whom == "now") return Fence{static_cast<std::uint64_t>(now.wall.count())};
    const auto plus = whom.find('+');
    if (plus == std::string::npos) return Fence{std::stoull(whom)};
    return Fence{fences_.at(whom.substr(0, plus)).number +
                 std::stoull(whom.substr(plus))};
  }

  Facts facts_of(const Term& who, Words& expected) override {
    const auto before = state;
    const auto encoded_before = record::encoded(state);
    then = {};
    cause_ = {};
    auto facts =
        who.name == "lock" ? facts_of_lock(expected) : facts_of_action(who, expected);
    facts["events"] = events_since(before);
    if (by_clock_) {
      for (const auto& run : then.vanished) record_past_run(state, run);
    }
    const auto was = [&](const char* name, const std::vector<Session>& all) {
      facts[name] = text_of(all);
    };
    was("wake", then.wake);
    was("dead", then.dead);
    auto woken = then.wake;
    std::sort(woken.begin(), woken.end());
    was("woken", woken);
    was("told", come_to_front(before, state, now));
    std::vector<Session> waiters;
    std::vector<Session> promised;
    for (const auto& waiter : state.waiters) {
      waiters.push_back(waiter.party.session);
      if (!waiter.promised_until) continue;
      if (promised.empty()) facts["promise"] = until(*waiter.promised_until);
      promised.push_back(waiter.party.session);
    }
    was("waiters", waiters);
    was("promised", promised);
    facts["holders"] = std::to_string(state.holders.size());
    facts["answered"] = std::to_string(state.answered.size());
    if (!state.holders.empty()) {
      const auto ends_at = end_of(state.holders[0]);
      facts["ends_in"] = ends_at ? until(*ends_at) : "never";
    }
    facts["runs"] = std::to_string(state.runs.size());
    facts["vanished"] = "none";
    if (!then.vanished.empty()) {
      const auto& run = then.vanished[0];
      facts["vanished"] = run.outcome;
      facts["vanished_of"] = name_of(run.fence);
      facts["lasted"] = whole_milliseconds_of(run.duration.value_or(milliseconds(0)));
      facts["reason"] = run.reason;
      std::replace(facts["reason"].begin(), facts["reason"].end(), ' ', '_');
    }
    facts["unchanged"] = yes_or_no(record::encoded(state) == encoded_before);
    return facts;
  }

  Facts facts_of_action(const Term& who, Words& expected) {
    const auto session = static_cast<Session>(scene::number_in(who.name));
    const auto& claim = claim_of(who, session);
    const Term action(expected.at(0));
    const auto& verb = action.name;
    expected.erase(expected.begin());
    const auto time = [&] { return scene::time_in(action.options.at(0).first); };
    if (verb == "asks") return facts_of(who, ask(claim));
    if (verb == "joins") return facts_of(who, ask(claim, Queue::join));
    if (verb == "takes" || verb == "gets") {
      expected.push_back("granted");
      const auto answer = ask(claim, verb == "gets" ? Queue::join : Queue::stay_out);
      const auto own = holder_of(state, claim.token);
      if (own != state.holders.end() && action.options.empty()) granted_[who.name] = *own;
      return facts_of(who, answer);
    }
    if (verb == "is_busy") {
      expected.push_back("busy");
      return facts_of(who, ask(claim));
    }
    if (verb == "queues") {
      if (!expected.empty() && expected[0].find('=') == std::string::npos) {
        expected[0] = "place=" + expected[0];
      }
      expected.push_back("busy");
      return facts_of(who, ask(claim, Queue::join));
    }
    if (verb == "leaves" || verb == "ends") {
      auto end = exit_with(0);
      scene::set(end, scene::options_of_ends, action);
      end.duration = ended_after(session);
      cause_.released_by = claim.token;
      if (verb == "ends") cause_.end = end;
      const auto answer =
          by_clock_ ? release_lease(step(), claim, &granted_.at(who.name), cause_.end)
                    : rules::release(step(), claim.token, cause_.end);
      return {{"is", scene::releases.at(answer)}};
    }
    if (verb == "renews") {
      const bool is_own = action.options.empty();
      const auto answer = is_own ? renew_lease(step(), claim, granted_.at(who.name))
                                 : rules::renew(step(), claim.token, time());
      const auto taker = is_own ? taker_from(state, granted_.at(who.name)) : std::nullopt;
      return {{"is", scene::renewals.at(answer)},
              {"taker", taker ? taker->host : "none"}};
    }
    if (verb == "breaks" || verb == "forces") {
      std::vector<Fence> fences;
      for (const auto& [whom, none] : action.options) fences.push_back(fence_of(whom));
      cause_.broken = fences;
      cause_.taken_by = Taker{"33", "web" + who.name, false, verb == "forces"};
      const auto found = break_leases(step(), fences, *cause_.taken_by);
      return {{"is", "broke"}, {"found", std::to_string(found.size())}};
    }
    if (verb == "watches") return facts_of(watch(session));
    if (verb == "dies") {
      liveness.dead.insert(session);
    } else if (verb == "stops") {
      liveness.stopped.insert(session);
    } else if (verb == "continues") {
      liveness.stopped.erase(session);
    } else if (verb == "starts") {
      record_command(state, token_of(session), {4711, now.boot, now.boot});
    } else if (verb == "parks") {
      for (auto& waiter : state.waiters) {
        if (waiter.party.session == session) waiter.parked_until = now.boot + time();
      }
    } else {
      throw std::logic_error("no one " + verb);
    }
    return {};
  }

  // As on a server, where the clock ends leases and places, if `by_clock_`.
  Step step() { return {state, now, alive(), then}; }
  const Liveness& alive() {
    if (!by_clock_) return liveness;
    return clock_liveness_.emplace(now);
  }
  Answer ask(const Claim& claim, Queue queue = Queue::stay_out) {
    const auto lasts = by_clock_ ? std::optional(place_lasts) : std::nullopt;
    return rules::ask(step(), {claim, party_of(number_of(claim.token)), queue, lasts});
  }

  // "expired1/0,granted2/0": what happened to whom, and how many slots are free then.
  std::string events_since(const State& before) const {
    std::string text;
    for (const auto& event :
         events_between(before, state, {"dlock", "job"}, cause_, now)) {
      text += (text.empty() ? "" : ",") + std::string(event_name(event.kind)) +
              std::to_string(event.pid - 1000) + '/' + std::to_string(event.free);
    }
    return text;
  }

  std::string name_of(Fence fence) const {
    for (const auto& [name, one] : fences_) {
      if (one == fence) return name;
    }
    return "none";
  }

  // Another claim under the same number is as the first was.
  const Claim& claim_of(const Term& who, Session session) {
    auto& claim = claims_[who.name];
    if (claim.lock.name.empty() || !who.options.empty()) {
      claim = exclusive(session);
      Term own = who;
      std::erase_if(own.options, [&](const auto& option) {
        if (option.first != "inside") return false;
        claim.outer_fences.push_back(fence_of(option.second));
        return true;
      });
      scene::set(claim, scene::options_of_claims, own);
    }
    return claim;
  }

  milliseconds ended_after(Session session) const {
    for (const auto& holder : state.holders) {
      if (holder.party.session != session) continue;
      return std::chrono::duration_cast<milliseconds>(now.boot - holder.granted_at);
    }
    return {};
  }

  std::string until(Clock::time_point time) const {
    return whole_milliseconds_of(time - now.boot);
  }

  Facts facts_of(const Term& who, const Answer& answer) {
    if (const auto* grant = std::get_if<Grant>(&answer)) {
      fences_[who.name] = grant->fence;
      const bool ends = grant->deadline != Clock::time_point::max();
      return {{"is", "granted"},
              {"fence", std::to_string(grant->fence.number)},
              {"slot", std::to_string(grant->slot)},
              {"broken", yes_or_no(grant->broken)},
              {"lasts", ends ? until(grant->deadline) : "forever"}};
    }
    if (const auto* busy = std::get_if<Busy>(&answer)) {
      return {{"is", "busy"}, {"place", std::to_string(busy->place)}};
    }
    if (const auto* run = std::get_if<Deduplicated>(&answer)) {
      return {{"is", "deduplicated"}, {"fence", std::to_string(run->by.fence.number)}};
    }
    if (std::holds_alternative<HeldByOuterRun>(answer)) return {{"is", "nested"}};
    if (std::holds_alternative<Superseded>(answer)) return {{"is", "superseded"}};
    return {{"is", "differs"}};
  }

  Facts facts_of(const WaitsFor& waits) const {
    const auto* before = waits.predecessor;
    return {{"is", "watching"},
            {"behind", before == nullptr ? "none" : std::to_string(before->session)},
            {"watched", std::to_string(waits.holders.size())},
            {"asks_in", until(waits.ask_again)}};
  }

  Facts facts_of_lock(Words& expected) {
    const auto verb = expected.empty() ? "" : expected[0];
    if (verb == "tidies") tidy(step());
    if (verb == "limits") limit_to_lengths(state, now);
    if (verb == "tidies" || verb == "limits") expected.erase(expected.begin());
    const auto shown = info_of(state, {"dlock", "job"}, now, alive());
    const auto& last = state.last_run;
    Facts facts{{"is", "shown"},
                {"shown_holders", std::to_string(shown.holders.size())},
                {"shown_waiters", std::to_string(shown.waiters.size())},
                {"free", std::to_string(shown.free)},
                {"fence", last ? std::to_string(last->fence.number) : "none"},
                {"last", last ? last->outcome : "none"},
                {"counts", state.past.last ? state.past.last->outcome : "none"},
                {"superseded", std::to_string(shown.superseded)},
                {"last_grant", name_of(state.last_fence)},
                {"untidy", yes_or_no(is_untidy(state, now, alive()))},
                {"out_of_use", yes_or_no(is_out_of_use(state, now, alive()))}};
    if (!shown.holders.empty()) {
      const auto& taker = state.holders[0].taken_by;
      facts["held_by"] = name_of(shown.holders[0].fence);
      facts["broken"] = yes_or_no(shown.holders[0].broken);
      facts["run_ended"] = yes_or_no(shown.holders[0].run_ended);
      facts["taken_by"] = taker ? taker->host : "none";
    }
    if (!state.waiters.empty() && state.waiters[0].lives_until) {
      facts["place_ends_in"] = until(*state.waiters[0].lives_until);
    }
    return facts;
  }

  bool by_clock_;
  std::optional<ClockLiveness> clock_liveness_;
  State copy_;
  Cause cause_;
  std::map<std::string, Claim> claims_;
  std::map<std::string, Fence> fences_;
  std::map<std::string, Holder> granted_;
};

}  // namespace

bool add_rules_scenes(const std::string& suite, const char* text, bool by_clock, int line,
                      const char* file) {
  for (const auto& [name, steps] : scene::scenes_in(text)) {
    ::testing::RegisterTest(("scenes/" + suite).c_str(), name.c_str(), nullptr, nullptr,
                            file, line, [steps = steps, by_clock]() -> ::testing::Test* {
                              return new RulesScene(steps, by_clock);
                            });
  }
  return true;
}

}  // namespace dlock::rules
