#include "store/local/state_bytes.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "lock/history.hpp"
#include "store/local/appended_fields.hpp"
#include "store/local/sessions.hpp"
#include "util/number.hpp"

namespace dlock::local {
namespace {

// A user, whose number is written.
template <typename Text>
struct ByNumber {
  Text& user;
};

template <typename Text>
ByNumber<Text> by_number(Text& user) {
  return {user};
}

class Writer {
 public:
  template <typename T>
    requires std::is_integral_v<T>
  void operator()(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint32_t>(text.size()));
    bytes += text;
  }
  void operator()(const Token& token) {
    bytes.append(reinterpret_cast<const char*>(token.bytes.data()), token.bytes.size());
  }
  void operator()(ByNumber<const std::string> of) {
    (*this)(number_in<std::uint32_t>(of.user).value_or(0));
  }
  void operator()(Fence fence) { (*this)(fence.number); }
  void operator()(Mode mode) { (*this)(static_cast<std::uint8_t>(mode)); }
  template <typename Rep, typename Period>
  void operator()(std::chrono::duration<Rep, Period> span) {
    (*this)(static_cast<std::int64_t>(span.count()));
  }
  void operator()(Clock::time_point moment) { (*this)(moment.time_since_epoch()); }
  template <typename T>
  void operator()(const std::optional<T>& value) {
    (*this)(static_cast<std::uint8_t>(value.has_value()));
    if (value) (*this)(*value);
  }
  template <typename T>
  void operator()(const std::vector<T>& values) {
    (*this)(static_cast<std::uint32_t>(values.size()));
    for (const auto& value : values) (*this)(value);
  }
  template <typename T>
    requires std::is_class_v<T>
  void operator()(const T& value) {
    each_field(value, [this](auto&& field) { (*this)(field); });
  }

  std::string bytes;
};

struct Malformed {};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  template <typename T>
    requires std::is_integral_v<T>
  void operator()(T& value) {
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
  }
  void operator()(bool& value) { value = number<std::uint8_t>() != 0; }
  void operator()(std::string& text) { text = take(number<std::uint32_t>()); }
  void operator()(Token& token) {
    std::memcpy(token.bytes.data(), take(token.bytes.size()).data(), token.bytes.size());
  }
  void operator()(ByNumber<std::string> of) {
    of.user = std::to_string(number<std::uint32_t>());
  }
  void operator()(Fence& fence) { (*this)(fence.number); }
  void operator()(Mode& mode) {
    const auto value = number<std::uint8_t>();
    if (value > 1) throw Malformed{};
    mode = static_cast<Mode>(value);
  }
  template <typename Rep, typename Period>
  void operator()(std::chrono::duration<Rep, Period>& span) {
    span = std::chrono::duration<Rep, Period>(number<std::int64_t>());
  }
  void operator()(Clock::time_point& moment) {
    moment = Clock::time_point(nanoseconds(number<std::int64_t>()));
  }
  template <typename T>
  void operator()(std::optional<T>& value) {
    value.reset();
    if (number<std::uint8_t>() != 0) (*this)(value.emplace());
  }
  template <typename T>
  void operator()(std::vector<T>& values) {
    const auto count = number<std::uint32_t>();
    // Every element takes at least a byte, so a forged count cannot exhaust memory.
    if (count > left_.size()) throw Malformed{};
    values.clear();
    values.reserve(std::min<std::size_t>(count, runs_kept));
    for (std::uint32_t i = 0; i < count; ++i) (*this)(values.emplace_back());
  }
  template <typename T>
    requires std::is_class_v<T>
  void operator()(T& value) {
    each_field(value, [this](auto&& field) { (*this)(field); });
  }

  bool at_end() const { return left_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    if (size > left_.size()) throw Malformed{};
    const auto taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }
  template <typename T>
  T number() {
    T value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  std::string_view left_;
};

// One list of fields for each type, used for both reading and writing.
template <typename T, typename Visit>
void each_field(T& value, Visit&& visit) {
  using Plain = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Plain, Party>) {
    visit(value.token), visit(value.session), visit(value.pid);
    visit(value.pid_namespace), visit(by_number(value.user)), visit(value.host);
  } else if constexpr (std::is_same_v<Plain, Holder>) {
    visit(value.party), visit(value.command), visit(value.command_after);
    visit(value.command_before), visit(value.mode), visit(value.slot);
    visit(value.fence), visit(value.since), visit(value.granted_at);
    visit(value.ends_at), visit(value.label), visit(value.argv);
    visit(value.counts), visit(value.min_hold), visit(value.for_pid);
    visit(value.ended), visit(value.broken);
  } else if constexpr (std::is_same_v<Plain, Waiter>) {
    visit(value.party), visit(value.mode), visit(value.since);
    visit(value.queued_at), visit(value.promised_until), visit(value.passed_over);
    visit(value.dedupe);
  } else if constexpr (std::is_same_v<Plain, Dedupe>) {
    visit(value.window), visit(value.retry_failed), visit(value.joins);
  } else if constexpr (std::is_same_v<Plain, AnsweredWaiter>) {
    visit(value.waiter), visit(value.by);
  } else if constexpr (std::is_same_v<Plain, Superseded>) {
    visit(value.host), visit(value.pid);
  } else if constexpr (std::is_same_v<Plain, AppendedFields::Leaver>) {
    visit(value.index), visit(value.newer);
  } else if constexpr (std::is_same_v<Plain, Taker>) {
    visit(by_number(value.user)), visit(value.host), visit(value.replaces);
  } else if constexpr (std::is_same_v<Plain, AppendedFields::Loser>) {
    visit(value.index), visit(value.taken_by);
  } else if constexpr (std::is_same_v<Plain, AppendedFields>) {
    visit(value.superseding), visit(value.replacing), visit(value.superseded);
  } else if constexpr (std::is_same_v<Plain, LeaseTtl>) {
    visit(value.index), visit(value.ttl);
  } else if constexpr (std::is_same_v<Plain, Counts>) {
    visit(value.refused), visit(value.superseded);
  } else if constexpr (std::is_same_v<Plain, Callers::Caller>) {
    visit(value.index), visit(value.pid);
  } else if constexpr (std::is_same_v<Plain, Callers>) {
    visit(value.of_waiters);
  } else if constexpr (std::is_same_v<Plain, PastRuns>) {
    visit(value.last), visit(value.last_success);
  } else if constexpr (std::is_same_v<Plain, RunInfo>) {
    visit(value.fence), visit(value.started), visit(value.ended);
    visit(value.duration), visit(value.exit_code), visit(value.signal);
    visit(value.host), visit(value.outcome), visit(value.reason);
    visit(value.user), visit(value.counts);
  } else {
    static_assert(std::is_same_v<Plain, State>);
    visit(value.last_fence), visit(value.slots), visit(value.used);
    visit(value.holders), visit(value.waiters), visit(value.last_run);
    visit(value.past), visit(value.answered), visit(value.runs);
  }
}

// The limits of valid states.
constexpr std::size_t most_holders = 100'000;
constexpr std::size_t most_waiters = 100'000;
constexpr std::uint32_t most_slots = 1'000'000;
constexpr milliseconds longest_span{std::int64_t{1} << 53};

bool is_sound(WallTime time) { return is_possible(time); }
bool is_sound(milliseconds span) {
  return span >= milliseconds(0) && span <= longest_span;
}
bool is_sound(Clock::time_point moment) {
  return moment.time_since_epoch() >= nanoseconds(0);
}
bool is_sound(Fence fence) { return fence <= greatest_fence; }
bool is_sound(const Dedupe& dedupe) { return is_sound(dedupe.window); }

bool is_sound(const RunInfo& run);
bool is_sound(const Holder& holder);
bool is_sound(const Waiter& waiter);
bool is_sound(const AnsweredWaiter& answered);

template <typename T>
bool is_sound(const std::optional<T>& value) {
  return !value || is_sound(*value);
}
template <typename T>
bool are_sound(const std::vector<T>& values, std::size_t most) {
  return values.size() <= most &&
         std::all_of(values.begin(), values.end(),
                     [](const T& value) { return is_sound(value); });
}

bool is_sound(const RunInfo& run) {
  return is_sound(run.fence) && is_sound(run.started) && is_sound(run.ended) &&
         is_sound(run.duration);
}

bool is_sound(const Party& party) {
  return party.pid >= 0 && (party.session == 0 || is_session(party.session));
}

bool is_sound(const Holder& holder) {
  return is_sound(holder.party) && holder.command >= 0 && holder.command_after >= 0 &&
         holder.command_before >= 0 && holder.slot < most_slots &&
         is_sound(holder.fence) && is_sound(holder.since) &&
         is_sound(holder.granted_at) && is_sound(holder.ends_at) &&
         is_sound(holder.min_hold) && is_sound(holder.ttl);
}

bool is_sound(const Waiter& waiter) {
  return is_sound(waiter.party) && is_sound(waiter.since) && is_sound(waiter.queued_at) &&
         is_sound(waiter.promised_until) && is_sound(waiter.dedupe);
}

bool is_sound(const AnsweredWaiter& answered) {
  return is_sound(answered.waiter) && is_sound(answered.by);
}

bool is_sound(const State& state) {
  return is_sound(state.last_fence) && state.slots > 0 && state.slots <= most_slots &&
         is_sound(state.used) && are_sound(state.holders, most_holders) &&
         are_sound(state.waiters, most_waiters) && is_sound(state.last_run) &&
         is_sound(state.past.last) && is_sound(state.past.last_success) &&
         are_sound(state.answered, most_waiters) && are_sound(state.runs, runs_kept);
}

}  // namespace

std::string encoded(const State& state) {
  Writer writer;
  writer(state);
  const auto later = appended_fields_of(state);
  const Counts counts{state.refused, state.superseded};
  const auto callers = callers_of(state);
  const auto ttls = lease_ttls_of(state);
  const bool has_callers = !callers.of_waiters.empty() || !ttls.empty();
  const bool has_counts = !counts.is_empty() || has_callers;
  const bool has_more = !later.taken_from.empty() || has_counts;
  if (!later.is_empty() || has_more) writer(later);
  if (has_more) writer(later.taken_from);
  if (has_counts) writer(counts);
  if (has_callers) writer(callers);
  if (!ttls.empty()) writer(ttls);
  return std::move(writer.bytes);
}

std::size_t room_for_ends(const State& state) {
  // A run with the longest name that a host may have (HOST_NAME_MAX).
  constexpr std::size_t run = 176;
  constexpr std::size_t runs = 4;  // last_run, both of past, and the last of those before
  // For a holder that will end by the clock, or from which the lock was taken.
  constexpr std::size_t holder = 88;
  // Both counts, and the four empty lists in front of them.
  constexpr std::size_t counts = sizeof(Counts) + 4 * sizeof(std::uint32_t);
  std::size_t room = runs * run + state.holders.size() * holder + counts;
  for (const auto& waiter : state.waiters) {
    room += waiter.dedupe || waiter.supersedes ? run : sizeof(std::int64_t);
  }
  return room;
}

std::optional<State> decoded(std::string_view bytes) {
  try {
    State state;
    Reader reader(bytes);
    reader(state);
    if (!reader.at_end()) {
      AppendedFields later;
      reader(later);
      if (!reader.at_end()) reader(later.taken_from);
      if (!take_in(later, state)) return std::nullopt;
    }
    if (!reader.at_end()) {
      Counts counts;
      reader(counts);
      state.refused = counts.refused;
      state.superseded = counts.superseded;
    }
    if (!reader.at_end()) {
      Callers callers;
      reader(callers);
      if (!take_in(callers, state)) return std::nullopt;
    }
    if (!reader.at_end()) {
      std::vector<LeaseTtl> ttls;
      reader(ttls);
      if (!take_in(ttls, state)) return std::nullopt;
    }
    if (!reader.at_end() || !is_sound(state)) return std::nullopt;
    return state;
  } catch (const Malformed&) {
    return std::nullopt;
  }
}

}  // namespace dlock::local
