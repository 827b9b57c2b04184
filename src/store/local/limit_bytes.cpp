#include "store/local/limit_bytes.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace dlock::local {

using rules::Turn;

namespace {

// A turn as stored. Its host is always this one.
struct KeptTurn {
  Token token;
  Clock::time_point at;
};

// The header of a state. The stamps follow, eight bytes each, then the turns, and the
// pids of the waiters, which older files lack.
struct LimitHead {
  std::uint64_t most = 0;
  std::int64_t period = 0;
  std::uint64_t stamps = 0;
  std::uint64_t turns = 0;
};
static_assert(sizeof(LimitHead) == 32 && sizeof(KeptTurn) == 24);

// The range of valid times, far from where sums would overflow.
constexpr std::uint64_t greatest_rate = 10'000;
constexpr std::int64_t longest_period = 3'200'000'000'000;  // ms, 100 years
constexpr Clock::time_point last_moment{nanoseconds(std::int64_t{1} << 62)};

bool is_since_boot(Clock::time_point moment) {
  return moment >= Clock::time_point{} && moment <= last_moment;
}

template <typename T>
void append(std::string& bytes, const std::vector<T>& values) {
  if (values.empty()) return;
  const auto at = bytes.size();
  bytes.resize(at + values.size() * sizeof(T));
  std::memcpy(bytes.data() + at, values.data(), values.size() * sizeof(T));
}

template <typename T>
std::vector<T> taken(std::string_view& bytes, std::size_t count) {
  std::vector<T> values(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), count * sizeof(T));
  bytes.remove_prefix(count * sizeof(T));
  return values;
}

}  // namespace

std::string encoded(const LimitState& state) {
  LimitHead head;
  head.most = state.rate.most;
  head.period = state.rate.period.count();
  head.stamps = state.stamps.size();
  head.turns = state.turns.size();
  std::string bytes(sizeof head, '\0');
  std::memcpy(bytes.data(), &head, sizeof head);
  append(bytes, state.stamps);
  std::vector<KeptTurn> turns;
  std::vector<std::int32_t> pids;
  for (const auto& turn : state.turns) {
    turns.push_back({turn.token, turn.at});
    pids.push_back(turn.pid);
  }
  append(bytes, turns);
  append(bytes, pids);
  return bytes;
}

std::optional<LimitState> decoded_limit(std::string_view bytes) {
  LimitHead head;
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  bytes.remove_prefix(sizeof head);
  if (head.most == 0 || head.most > greatest_rate || head.period <= 0 ||
      head.period > longest_period ||
      head.stamps > bytes.size() / sizeof(Clock::time_point)) {
    return std::nullopt;
  }
  LimitState state;
  state.rate.most = static_cast<unsigned>(head.most);
  state.rate.period = milliseconds(head.period);
  state.stamps = taken<Clock::time_point>(bytes, head.stamps);
  if (head.turns > bytes.size() / sizeof(KeptTurn)) return std::nullopt;
  for (const auto& turn : taken<KeptTurn>(bytes, head.turns)) {
    state.turns.push_back({turn.token, turn.at});
  }
  if (bytes.size() == head.turns * sizeof(std::int32_t)) {
    const auto pids = taken<std::int32_t>(bytes, head.turns);
    for (std::size_t i = 0; i < pids.size(); ++i) state.turns[i].pid = pids[i];
  }
  const bool is_possible =
      bytes.empty() && std::is_sorted(state.stamps.begin(), state.stamps.end()) &&
      std::all_of(state.stamps.begin(), state.stamps.end(), is_since_boot) &&
      std::all_of(state.turns.begin(), state.turns.end(),
                  [](const Turn& turn) { return is_since_boot(turn.at); });
  return is_possible ? std::optional(std::move(state)) : std::nullopt;
}

}  // namespace dlock::local
