#include <algorithm>

#include "record/encoders.hpp"
#include "record/record_fields.hpp"
#include "record/states.hpp"

namespace dlock::record {
using rules::AnsweredWaiter;
using rules::Holder;
using rules::LimitState;
using rules::Party;
using rules::State;
using rules::Turn;
using rules::Waiter;

namespace {

// Writes the groups up to the last one that is not empty.
class LaterWriter {
 public:
  explicit LaterWriter(ByteWriter& writer) : out_(writer) {}

  template <typename... Fields>
  void operator()(const Fields&... fields) {
    bool has_any = false;
    ((has_any = write(fields) || has_any), ...);
    if (!has_any) return;
    const auto groups = writer_.take();
    out_.append(groups.data(), groups.size());
  }

 private:
  // Returns whether it has a value.
  bool write(std::uint64_t count) {
    writer_(count);
    return count != 0;
  }
  template <typename T, typename Element, typename Value>
  bool write(const Column<T, Element, Value>& column) {
    const auto begin = writer_.size();
    std::uint32_t count = 0;
    writer_(count);
    for (std::uint32_t i = 0; i < column.list.size(); ++i) {
      const auto& value = column.list[i].*column.field;
      if (value == column.usual) continue;
      writer_(i);
      write_value(value);
      ++count;
    }
    std::memcpy(writer_.data() + begin, &count, sizeof count);
    return count != 0;
  }
  template <typename T>
  void write_value(const T& value) {
    writer_(value);
  }
  template <typename T>
  void write_value(const std::optional<T>& value) {
    writer_(*value);
  }
  void write_value(bool) {}

  ByteWriter& out_;
  ByteWriter writer_;  // of groups that wait for a later one that is not empty
};

// Reads the groups that are there.
class LaterReader {
 public:
  explicit LaterReader(ByteReader& reader) : reader_(reader) {}

  template <typename... Fields>
  void operator()(Fields&&... fields) {
    if (!reader_.at_end()) (read(fields), ...);
  }

 private:
  void read(std::uint64_t& count) { reader_(count); }
  template <typename T, typename Element, typename Value>
  void read(Column<T, Element, Value>& column) {
    const auto count = reader_.number<std::uint32_t>();
    reader_.check_count(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto at = reader_.number<std::uint32_t>();
      if (at >= column.list.size()) throw Malformed{};
      read_value(column.list[at].*column.field);
    }
  }
  template <typename T>
  void read_value(T& value) {
    reader_(value);
  }
  template <typename T>
  void read_value(std::optional<T>& value) {
    reader_(value.emplace());
  }
  void read_value(bool& value) { value = true; }

  ByteReader& reader_;
};

// The limits of valid states.
constexpr std::size_t most_holders = 100'000;
constexpr std::size_t most_waiters = 100'000;
constexpr std::uint32_t most_slots = 1'000'000;
constexpr milliseconds longest_span{std::int64_t{1} << 53};

bool is_sound(WallTime time) { return rules::is_possible(time); }
bool is_sound(milliseconds span) { return span.count() >= 0 && span <= longest_span; }
bool is_sound(Clock::time_point moment) { return moment >= Clock::time_point(); }
bool is_sound(Fence fence) { return fence <= greatest_fence; }
bool is_sound(const Dedupe& dedupe) { return is_sound(dedupe.window); }
bool is_sound(const Superseded& newer) { return newer.pid >= 0; }

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
         std::ranges::all_of(values, [](const T& value) { return is_sound(value); });
}

bool is_sound(const RunInfo& run) {
  return is_sound(run.fence) && is_sound(run.started) && is_sound(run.ended) &&
         is_sound(run.duration);
}

bool is_sound(const Party& party) { return party.pid >= 0; }

bool is_sound(const Holder& holder) {
  return is_sound(holder.party) && holder.command >= 0 && holder.command_after >= 0 &&
         holder.command_before >= 0 && holder.slot < most_slots &&
         is_sound(holder.fence) && is_sound(holder.since) &&
         is_sound(holder.granted_at) && is_sound(holder.ends_at) &&
         is_sound(holder.lives_until) && is_sound(holder.lease) &&
         is_sound(holder.min_hold) && is_sound(holder.ttl);
}

bool is_sound(const Waiter& waiter) {
  return is_sound(waiter.party) && is_sound(waiter.since) && is_sound(waiter.queued_at) &&
         is_sound(waiter.lives_until) && is_sound(waiter.promised_until) &&
         is_sound(waiter.parked_until) && is_sound(waiter.dedupe) &&
         waiter.on_behalf_of >= 0 && waiter.priority >= -20 && waiter.priority <= 20;
}

bool is_sound(const AnsweredWaiter& answered) {
  return is_sound(answered.waiter) && is_sound(answered.by) && is_sound(answered.newer);
}

bool has_sessions(const State& state) {
  const auto is_known = [](const auto& one) {
    return one.party.session == 0 || is_session(one.party.session);
  };
  return std::ranges::all_of(state.holders, is_known) &&
         std::ranges::all_of(state.waiters, is_known) &&
         std::ranges::all_of(state.answered, is_known, &AnsweredWaiter::waiter);
}

}  // namespace

bool is_sound(const State& state) {
  return is_sound(state.last_fence) && state.slots > 0 && state.slots <= most_slots &&
         is_sound(state.used) && are_sound(state.holders, most_holders) &&
         are_sound(state.waiters, most_waiters) && is_sound(state.last_run) &&
         is_sound(state.past.last) && is_sound(state.past.last_success) &&
         are_sound(state.answered, most_waiters) && are_sound(state.runs, runs_kept);
}

bool is_session(rules::Session session) {
  return session >= first_session && session < last_session;
}

std::string encoded(const State& state) {
  ByteWriter writer;
  writer(state);
  later_fields(state, LaterWriter(writer));
  return writer.take();
}

std::size_t room_for_ends(const State& state) {
  // A run with the longest name that a host may have (HOST_NAME_MAX).
  constexpr std::size_t run = 176;
  constexpr std::size_t runs = 4;  // last_run, both of past, and the last of those before
  // For a holder that will end by the clock, or from which the lock was taken.
  constexpr std::size_t holder = 88;
  // Both counts, and the four empty lists in front of them.
  constexpr std::size_t counts = 2 * sizeof(std::uint64_t) + 4 * sizeof(std::uint32_t);
  std::size_t room = runs * run + state.holders.size() * holder + counts;
  for (const auto& waiter : state.waiters) {
    room += waiter.dedupe || waiter.supersedes ? run : sizeof(std::int64_t);
  }
  return room;
}

std::optional<State> decoded(std::string_view bytes) {
  try {
    State state;
    ByteReader reader(bytes);
    reader(state);
    later_fields(state, LaterReader(reader));
    if (!reader.at_end() || !is_sound(state) || !has_sessions(state)) {
      return std::nullopt;
    }
    return state;
  } catch (const Malformed&) {
    return std::nullopt;
  }
}

namespace {

// The range of valid times, far from where sums would overflow.
constexpr std::uint64_t greatest_rate = 10'000;
constexpr std::int64_t longest_period = 3'200'000'000'000;  // ms, 100 years
constexpr Clock::time_point last_moment{nanoseconds(std::int64_t{1} << 62)};

bool is_in_range(Clock::time_point moment) {
  return is_sound(moment) && moment <= last_moment;
}

bool is_sound(const LimitState& state) {
  return std::ranges::is_sorted(state.stamps) &&
         std::ranges::all_of(state.stamps, is_in_range) &&
         std::ranges::all_of(state.turns, is_in_range, &Turn::at);
}

// How many there are is in the head.
template <typename State, typename Visit>
void elements_in_bytes(State& state, Visit&& visit) {
  for (auto& stamp : state.stamps) visit(stamp);
  for (auto& turn : state.turns) visit(turn.token), visit(turn.at);
}

}  // namespace

std::string encoded(const LimitState& state) {
  ByteWriter writer;
  writer(std::uint64_t{state.rate.most});
  writer(state.rate.period);
  writer(std::uint64_t{state.stamps.size()});
  writer(std::uint64_t{state.turns.size()});
  elements_in_bytes(state, writer);
  for (const auto& turn : state.turns) writer(std::int32_t{turn.pid});
  return writer.take();
}

std::optional<LimitState> decoded_limit(std::string_view bytes) {
  try {
    LimitState state;
    ByteReader reader(bytes);
    const auto most = reader.number<std::uint64_t>();
    reader(state.rate.period);
    const auto stamps = reader.number<std::uint64_t>();
    const auto turns = reader.number<std::uint64_t>();
    const auto period = state.rate.period.count();
    if (most == 0 || most > greatest_rate || period <= 0 || period > longest_period) {
      return std::nullopt;
    }
    state.rate.most = static_cast<unsigned>(most);
    reader.check_count(stamps, sizeof(std::int64_t));
    reader.check_count(turns, sizeof(Token) + sizeof(std::int64_t));
    state.stamps.resize(stamps);
    state.turns.resize(turns);
    elements_in_bytes(state, reader);
    for (auto& turn : state.turns) reader(turn.pid);
    if (!reader.at_end() || !is_sound(state)) return std::nullopt;
    return state;
  } catch (const Malformed&) {
    return std::nullopt;
  }
}

}  // namespace dlock::record
