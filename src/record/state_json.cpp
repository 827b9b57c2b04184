#include <type_traits>
#include <utility>

#include "record/record_fields.hpp"
#include "record/states.hpp"
#include "util/json.hpp"
#include "util/text.hpp"

namespace dlock::record {

namespace {

template <typename T>
constexpr bool is_number =
    std::is_integral_v<T> || is_span<T> || std::is_same_v<T, Fence> ||
    std::is_same_v<T, Clock::time_point>;
template <typename T>
constexpr bool is_text =
    std::is_same_v<T, std::string> || std::is_same_v<T, Token> || std::is_same_v<T, Mode>;

// Where a value of a text goes; nowhere if it has no kind.
struct Kind;
struct ValuePlace {
  void* value = nullptr;
  const Kind* kind = nullptr;
};

// What a value of a type may be in a text. The functions that set it return false if it
// cannot have that value.
struct Kind {
  bool (*number)(void*, std::uint64_t) = nullptr;
  bool (*text)(void*, const std::string&) = nullptr;
  bool (*flag)(void*, bool) = nullptr;
  ValuePlace (*field)(void*, std::string_view key) = nullptr;
  ValuePlace (*element)(void*) = nullptr;  // a new one
};

template <typename T>
bool set_number(void* to, std::uint64_t number) {
  // The limit up to which every JSON parser is exact, and far from where times overflow.
  constexpr auto greatest = std::uint64_t{1} << 53;
  if (number > greatest) return false;
  if constexpr (std::is_integral_v<T>) {
    if (!std::in_range<T>(number)) return false;
    *static_cast<T*>(to) = static_cast<T>(number);
  } else if constexpr (std::is_same_v<T, Fence>) {
    static_cast<Fence*>(to)->number = number;
  } else if constexpr (std::is_same_v<T, Clock::time_point>) {
    *static_cast<T*>(to) = T(WallTime(static_cast<std::int64_t>(number)));
  } else {
    *static_cast<T*>(to) = T(static_cast<typename T::rep>(number));
  }
  return true;
}

template <typename T>
bool set_text(void* to, const std::string& text) {
  if constexpr (std::is_same_v<T, std::string>) {
    *static_cast<std::string*>(to) = text;
  } else if constexpr (std::is_same_v<T, Token>) {
    const auto token = token_from(text);
    if (!token) return false;
    *static_cast<Token*>(to) = *token;
  } else {
    *static_cast<Mode*>(to) = text == "shared" ? Mode::shared : Mode::exclusive;
    return text == "shared" || text == "exclusive";
  }
  return true;
}

template <typename T>
constexpr Kind kind_of();
template <typename T>
constexpr Kind kind = kind_of<T>();

// Finds the field with a key in a list of fields.
struct Finder {
  std::string_view wanted;
  ValuePlace found = {};

  // Otherwise a state takes a tenth longer to read, for fields that are not in a row.
  template <typename T, typename... Forms>
  [[gnu::always_inline]] void operator()(const char* key, T& value, Forms...) {
    if constexpr (form_in<row, Forms...> == Form::none) {
      return;
    } else if constexpr (is_optional<T>) {
      if (wanted == key) found = {&value.emplace(), &kind<typename T::value_type>};
    } else {
      if (wanted == key) found = {&value, &kind<T>};
    }
  }
};

template <typename T>
constexpr Kind kind_of() {
  Kind known;
  if constexpr (std::is_same_v<T, bool>) {
    known.flag = [](void* to, bool flag) {
      *static_cast<bool*>(to) = flag;
      return true;
    };
  } else if constexpr (is_number<T>) {
    known.number = &set_number<T>;
  } else if constexpr (is_text<T>) {
    known.text = &set_text<T>;
  } else if constexpr (is_list<T>) {
    known.element = [](void* to) -> ValuePlace {
      return {&static_cast<T*>(to)->emplace_back(), &kind<typename T::value_type>};
    };
  } else {
    known.field = [](void* to, std::string_view key) {
      Finder finder{key};
      fields(*static_cast<T*>(to), finder);
      return finder.found;
    };
  }
  return known;
}

// Puts the values of a text where they belong. Stops at the first that does not fit.
class StateReader final : public JsonEvents {
 public:
  // `most`: how many objects and lists there can be.
  StateReader(ValuePlace whole, std::size_t most) : next_(whole), left_(most) {}

  bool key(string_t& key) override {
    const auto& object = open_.back();
    next_ = object.kind == nullptr ? ValuePlace{} : object.kind->field(object.value, key);
    return true;
  }
  bool null() override { return take().kind == nullptr; }
  bool boolean(bool flag) override { return set(&Kind::flag, flag); }
  bool number_integer(number_integer_t number) override {  // a negative one
    const auto place = take();
    const bool fits = place.kind == &kind<std::int32_t> && number >= INT32_MIN;
    if (fits) *static_cast<std::int32_t*>(place.value) = static_cast<int>(number);
    return fits || place.kind == nullptr;
  }
  bool number_unsigned(number_unsigned_t number) override {
    return set(&Kind::number, number);
  }
  bool number_float(number_float_t, const string_t&) override { return !take().kind; }
  bool string(string_t& text) override { return set(&Kind::text, text); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(&Kind::field); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(&Kind::element); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

 private:
  // The place of the value that has come.
  ValuePlace take() {
    if (open_.empty() || open_.back().kind == nullptr) return std::exchange(next_, {});
    const auto& around = open_.back();
    const auto new_element = around.kind->element;
    return new_element != nullptr ? new_element(around.value) : std::exchange(next_, {});
  }
  template <typename Function, typename Value>
  bool set(Function Kind::*how, const Value& value) {
    const auto place = take();
    if (place.kind == nullptr) return true;
    const auto function = place.kind->*how;
    return function != nullptr && function(place.value, value);
  }
  template <typename Function>
  bool open(Function Kind::*how) {
    open_.push_back(take());
    const auto* opened = open_.back().kind;
    if (opened == nullptr) return true;
    return opened->*how != nullptr && left_-- > 0;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<ValuePlace> open_;  // the objects and lists around the next value
  ValuePlace next_;               // of the value of the last key
  std::size_t left_;              // how many objects and lists may still be opened
};

template <typename T>
std::optional<T> read_from(std::string_view text) {
  constexpr JsonLimits limits{std::size_t{1} << 20, 16, 1'000'000};
  // An object takes hundreds of bytes once it is read, and two in the text if it is
  // empty. Those that are written take more than this on average, with their lists.
  constexpr std::size_t shortest = 30;
  constexpr std::size_t in_short_texts = 100;
  T value;
  StateReader reader({&value, &kind<T>}, in_short_texts + text.size() / shortest);
  if (!read_json(text, reader, limits)) return std::nullopt;
  return value;
}

std::string written(const rules::State& state) {
  JsonWriter<row> writer;
  writer.text().reserve(1024 + state.waiters.size() * 192);
  writer.add(state);
  return std::move(writer.text());
}

void forget(Description& description) { description = Description(); }

rules::State without_commands(rules::State state) {
  for (auto& holder : state.holders) holder.argv.clear(), forget(holder);
  for (auto& waiter : state.waiters) forget(waiter);
  return state;
}

}  // namespace

int format_of(const rules::State& /*state*/) { return greatest_state_format; }

std::optional<std::string> state_json(const rules::State& state) {
  auto text = written(state);
  if (text.size() > longest_state) text = written(without_commands(state));
  return text.size() > longest_state ? std::nullopt : std::optional(std::move(text));
}

std::string runs_json(const std::vector<RunInfo>& runs) { return json_of<row>(runs); }

std::optional<rules::State> state_from_json(std::string_view text) {
  auto state = read_from<rules::State>(text);
  if (!state || !is_sound(*state)) return std::nullopt;
  const auto address = [](rules::Party& party) {
    party.session = rules::session_of(party.token);
  };
  for (auto& holder : state->holders) {
    if (!holder.ends_at) address(holder.party);
  }
  for (auto& waiter : state->waiters) address(waiter.party);
  for (auto& answered : state->answered) address(answered.waiter.party);
  return state;
}

std::optional<std::vector<RunInfo>> runs_from_json(std::string_view text) {
  auto runs = read_from<std::vector<RunInfo>>(text);
  rules::State state;
  if (runs) state.runs = *runs;
  return is_sound(state) ? runs : std::nullopt;
}

}  // namespace dlock::record
