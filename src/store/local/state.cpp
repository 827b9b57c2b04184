#include "store/local/state.hpp"

#include <cstring>
#include <type_traits>

#include "util/checksum.hpp"

namespace dlock::local {
namespace {

class Writer {
 public:
  template <typename T>
    requires std::is_integral_v<T>
  void operator()(T value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes.append(raw, sizeof raw);
  }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint32_t>(text.size()));
    bytes += text;
  }
  void operator()(const Token& token) {
    for (const auto byte : token.bytes) (*this)(byte);
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
    each_field(value, [this](const auto& field) { (*this)(field); });
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
    for (auto& byte : token.bytes) (*this)(byte);
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
    // Every element takes a byte at least, so a lying count cannot take memory.
    if (count > left_.size()) throw Malformed{};
    values.clear();
    for (std::uint32_t i = 0; i < count; ++i) (*this)(values.emplace_back());
  }
  template <typename T>
    requires std::is_class_v<T>
  void operator()(T& value) {
    each_field(value, [this](auto& field) { (*this)(field); });
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

// One list of fields for each type, read and written by the same lines.
template <typename T, typename Visit>
void each_field(T& value, Visit&& visit) {
  using Plain = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Plain, Party>) {
    visit(value.token), visit(value.session), visit(value.pid);
    visit(value.pid_namespace), visit(value.uid), visit(value.host);
  } else if constexpr (std::is_same_v<Plain, Holder>) {
    visit(value.party), visit(value.command), visit(value.command_after);
    visit(value.command_before), visit(value.mode), visit(value.slot);
    visit(value.fence), visit(value.since), visit(value.granted_at);
    visit(value.ends_at), visit(value.label), visit(value.argv);
    visit(value.counts), visit(value.min_hold), visit(value.ended);
    visit(value.broken);
  } else if constexpr (std::is_same_v<Plain, Waiter>) {
    visit(value.party), visit(value.mode), visit(value.since);
    visit(value.queued_at), visit(value.promised_until), visit(value.passed_over);
    visit(value.dedupe);
  } else if constexpr (std::is_same_v<Plain, Dedupe>) {
    visit(value.window), visit(value.retry_failed), visit(value.joins);
  } else if constexpr (std::is_same_v<Plain, Dismissed>) {
    visit(value.waiter), visit(value.by);
  } else if constexpr (std::is_same_v<Plain, PastRuns>) {
    visit(value.last), visit(value.last_success);
  } else if constexpr (std::is_same_v<Plain, RunInfo>) {
    visit(value.fence), visit(value.started), visit(value.ended);
    visit(value.duration), visit(value.exit_code), visit(value.signal);
    visit(value.host), visit(value.outcome), visit(value.counts);
  } else {
    static_assert(std::is_same_v<Plain, State>);
    visit(value.last_fence), visit(value.slots), visit(value.used);
    visit(value.holders), visit(value.waiters), visit(value.last_run);
    visit(value.past), visit(value.dismissed);
  }
}

constexpr std::size_t checksum_size = sizeof(std::uint64_t);

template <typename T>
std::string sealed(const T& value) {
  Writer writer;
  writer.bytes.resize(checksum_size);
  writer(value);
  const auto sum = checksum(std::string_view(writer.bytes).substr(checksum_size));
  std::memcpy(writer.bytes.data(), &sum, sizeof sum);
  return std::move(writer.bytes);
}

template <typename T>
std::optional<T> unsealed(std::string_view bytes) {
  if (bytes.size() < checksum_size) return std::nullopt;
  std::uint64_t sum = 0;
  std::memcpy(&sum, bytes.data(), sizeof sum);
  bytes.remove_prefix(checksum_size);
  if (sum != checksum(bytes)) return std::nullopt;
  try {
    T value;
    Reader reader(bytes);
    reader(value);
    if (!reader.at_end()) return std::nullopt;
    return value;
  } catch (const Malformed&) {
    return std::nullopt;
  }
}

}  // namespace

std::string encoded(const State& state) { return sealed(state); }
std::optional<State> decoded(std::string_view bytes) { return unsealed<State>(bytes); }

std::string encoded(const RunInfo& run) { return sealed(run); }
std::optional<RunInfo> decoded_run(std::string_view bytes) {
  return unsealed<RunInfo>(bytes);
}

}  // namespace dlock::local
