#include "rules/watches.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace dlock::rules {
namespace {

// The interval between the checks of two waiters whether a promise in front of them has
// lapsed.
constexpr milliseconds look_after_each_other{10};

// The waiters in front that always stay connected, besides as many as there are slots:
// those of a job on ten hosts, which so learn at once that its runs have become shorter.
constexpr std::size_t never_parked = 8;
// A waiter whose turn can come within this time also stays connected, unless so many do.
constexpr milliseconds soon{4000};
constexpr std::size_t most_connected = 40;
// The queue may drain more quickly than the last runs suggest: then the lock is free
// until one that is parked is back.
constexpr milliseconds longest_parking{90'000};
// How quickly a queue of so many drains at the best, for each waiter.
constexpr milliseconds quickest_turn{200};
constexpr milliseconds usual_hold{30'000};

// For how long the lock is held already, by the last one that has got it.
milliseconds held_for(const State& state, Moment now) {
  std::optional<milliseconds> least;
  for (const auto& holder : state.holders) {
    const auto held = std::chrono::floor<milliseconds>(now.boot - holder.granted_at);
    least = std::min(least.value_or(held), held);
  }
  return std::max(least.value_or(milliseconds(0)), milliseconds(0));
}

// How quickly one run follows another: the quickest of the last ones counts. If there is
// none, those who hold the lock have at least held it until now.
constexpr std::ptrdiff_t runs_of_pace = 5;
constexpr milliseconds unknown_pace{12};
milliseconds pace_of(const State& state, Moment now) {
  std::optional<milliseconds> least;
  const auto last = std::min(runs_of_pace, std::ssize(state.runs));
  for (const auto& run : std::span(state.runs).first(static_cast<std::size_t>(last))) {
    if (run.duration) least = std::min(least.value_or(*run.duration), *run.duration);
  }
  if (least) return std::max(*least, milliseconds(1));
  return std::max(held_for(state, now), unknown_pace);
}

// When the lease of a holder ends, those further back check a little later, so that not
// all do so at once; from the fifth one on also so much later that a holder that renews
// three times in a lease has just done so.
constexpr milliseconds lease_end_step{20};
constexpr milliseconds lease_end_pause{1000};
constexpr std::size_t far_back = 9;

// When a waiter checks although nothing woke it. That its turn can come soon, so that it
// is not parked, may only seem so as long as no run has ended.
milliseconds checks_at_last_after(const SafetyNet& net, const State& state,
                                  std::size_t place) {
  if (place <= in_front) return net.of_first_two;
  if (place <= net.doubles_to) return net.of_first_two * (1 << (place - 2));
  const auto count = static_cast<int>(std::min<std::size_t>(place, 20) + 1);
  const auto after = std::min(net.per_place * count, net.longest);
  const bool may_be_parked = place > state.slots + never_parked && state.runs.empty();
  return may_be_parked ? std::min(after, net.until_pace_is_known) : after;
}

milliseconds checks_after(const SafetyNet& net, const State& state, std::size_t place,
                          Moment now) {
  auto after = checks_at_last_after(net, state, place);
  if (!net.at_lease_end_after) return after;
  const auto least = place < far_back ? net.of_first_two : *net.at_lease_end_after;
  auto step = lease_end_step * static_cast<int>(std::min<std::size_t>(place, 100));
  if (place > net.doubles_to) step += lease_end_pause;
  for (const auto& holder : state.holders) {
    const auto end = end_of(holder);
    if (!end) continue;
    const auto left = std::chrono::ceil<milliseconds>(*end - now.boot) + step;
    after = std::min(after, std::max(left, least));
  }
  return after;
}

std::vector<Session> front_of(const State& state, Moment now) {
  std::vector<Session> front;
  for (const auto& waiter : state.waiters) {
    if (front.size() == in_front) break;
    const bool is_in_line =
        !waiter.passed_over && !waiter.promised_until && !is_parked(waiter, now) &&
        !(waiter.spreads && is_crowded(state, waiter.party.host, now));
    if (is_in_line) front.push_back(waiter.party.session);
  }
  return front;
}

// A place is written again once it is older than this. The first ones ask so often that
// an idle queue would write nothing but places; the others lose theirs no sooner.
constexpr milliseconds fresh_in_front{15'000};
constexpr milliseconds fresh_behind{33'000};

}  // namespace

std::vector<Session> come_to_front(const State& before, const State& after, Moment now) {
  auto front = front_of(after, now);
  const auto former = front_of(before, now);
  std::erase_if(front, [&](Session session) {
    return std::ranges::find(former, session) != former.end();
  });
  return front;
}

Clock::time_point place_until(const std::optional<Clock::time_point>& before,
                              std::size_t place, milliseconds lasts, Moment now) {
  const auto fresh_for = place <= in_front ? fresh_in_front : fresh_behind;
  const bool is_fresh = before && *before >= later(now.boot, lasts - fresh_for);
  return is_fresh ? *before : later(now.boot, lasts);
}

std::optional<milliseconds> parked_for(const State& state, const Token& token,
                                       Moment now) {
  std::size_t place = 0;    // readers that enter together count as one
  std::size_t present = 0;  // of them those that are not parked
  bool is_after_reader = false;
  for (const auto& waiter : state.waiters) {
    if (waiter.spreads) return std::nullopt;  // many of these can be passed over at once
    const bool is_reader = waiter.mode == Mode::shared;
    const bool counts = !is_reader || !is_after_reader;
    if (counts) ++place;
    if (counts && !is_parked(waiter, now)) ++present;
    is_after_reader = is_reader;
    if (waiter.party.token == token) break;
  }
  const auto connected = state.slots + never_parked;
  if (present <= connected) return std::nullopt;
  const auto turns = static_cast<std::int64_t>((place + state.slots - 1) / state.slots);
  // What another program has written could overflow below.
  auto pace = std::clamp(pace_of(state, now), milliseconds(0), 2 * longest_parking);
  if (pace * turns <= soon) {
    if (present <= state.slots + most_connected) return std::nullopt;
    pace = std::max(pace, quickest_turn);
  }
  const auto behind = static_cast<std::int64_t>((place - connected) / state.slots);
  // A run that takes long already may take much longer than those before it.
  const auto unusual = (held_for(state, now) - usual_hold) / 8;
  const auto span = std::max<milliseconds>(pace * behind / 2, unusual);
  return std::clamp(span, soon, longest_parking);
}

WaitsFor waits_for(const State& state, const Token& token, Moment now,
                   const SafetyNet& net) {
  WaitsFor watch;
  watch.ask_again = now.boot;
  // Not counting those passed over, which block no other, and those that either get the
  // lock or are passed over soon.
  std::size_t place = 1;
  const Waiter* before = nullptr;
  // When promises in front lapse. The next waiter asks first, the others soon after it,
  // because it may be stopped as well.
  auto lapses = Clock::time_point::max();
  const auto lets_pass = [&](const Waiter& waiter) {
    return waiter.spreads && is_crowded(state, waiter.party.host, now);
  };
  const auto own = std::ranges::find_if(
      state.waiters, [&](const Waiter& w) { return w.party.token == token; });
  // The first that can be granted the lock watches as if it was in front: those before
  // it, on the hosts of holders, may die together with these.
  const bool passes = own != state.waiters.end() && !lets_pass(*own);
  for (const auto& waiter : state.waiters) {
    if (waiter.party.token == token) {
      watch.ask_again = std::min(now.boot + checks_after(net, state, place, now), lapses);
      if (before != nullptr) {
        watch.predecessor = &before->party;
        const auto dies = before->lives_until.value_or(watch.ask_again);
        watch.ask_again = std::min(watch.ask_again, dies);
      }
      break;
    }
    if (waiter.passed_over || (passes && lets_pass(waiter))) continue;
    if (lapses != Clock::time_point::max()) lapses += look_after_each_other;
    if (is_promised(waiter, now)) lapses = std::min(lapses, *waiter.promised_until);
    before = &waiter;
    if (!waiter.promised_until && !is_parked(waiter, now)) ++place;
  }
  if (watch.predecessor == nullptr) {
    for (const auto& holder : state.holders) {
      watch.holders.push_back(&holder);
      const auto ends_at = end_of(holder).value_or(watch.ask_again);
      watch.ask_again = std::min(watch.ask_again, ends_at);
    }
  }
  return watch;
}

}  // namespace dlock::rules
