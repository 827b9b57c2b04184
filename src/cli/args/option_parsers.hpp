// The values of the rows of the table of options: how the text of an option becomes one.
#pragma once

#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/args/options.hpp"
#include "cli/args/usage_hint.hpp"
#include "util/text.hpp"

namespace dlock::option_rows {

// A word that an option accepts, and its meaning.
template <typename Meaning>
struct Choice {
  std::string_view word;
  Meaning meaning;
};

inline constexpr Choice<Color> colors[] = {
    {"auto", Color::automatic}, {"always", Color::always}, {"never", Color::never}};
inline constexpr Choice<bool> yes_or_no[] = {{"true", true}, {"false", false}};
inline constexpr Choice<OnOutage> outage_policies[] = {{"stop", OnOutage::stop},
                                                       {"run", OnOutage::run}};
inline constexpr Choice<Stragglers> straggler_policies[] = {
    {"leave", Stragglers::leave}, {"wait", Stragglers::wait}, {"kill", Stragglers::kill}};
inline constexpr Choice<ListOrder> orders[] = {{"name", ListOrder::name},
                                               {"age", ListOrder::age}};

template <const auto& choices>
auto choice(const std::string& value) {
  std::string listed;
  std::vector<std::string_view> words;
  for (const auto& [word, meaning] : choices) {
    if (word == value) return meaning;
    if (!listed.empty()) listed += &word == &std::rbegin(choices)->word ? " or " : ", ";
    listed += word;
    words.push_back(word);
  }
  throw UsageError("expected " + listed + ", not '" + printable(value, 60) + "'" +
                   did_you_mean(value, words));
}

template <unsigned least, unsigned most, typename Number = unsigned>
Number number(const std::string& value) {
  return static_cast<Number>(parsed_number(value, least, most));
}

// Zero is the same as none.
template <milliseconds (*parse)(std::string_view)>
std::optional<milliseconds> some(const std::string& value) {
  const auto span = parse(value);
  return span.count() > 0 ? std::optional(span) : std::nullopt;
}

inline std::function<std::string()> key_password(const std::string& value) {
  return [file = parsed_file_name(value)] { return password_in(file); };
}

inline Replicas replicas(const std::string& value) {
  constexpr unsigned most = 15;  // far more than any setup has
  if (value == "all") return {.all = true};
  try {
    return {.count = parsed_number(value, 0, most)};
  } catch (const UsageError& error) {
    throw UsageError(std::string(error.what()) + ", or all");
  }
}

inline AddressMap addresses(const std::string& value) {
  try {
    return AddressMap::parsed(value);
  } catch (const Failure& failure) {
    throw UsageError(failure.what());
  }
}

inline std::string label_in(const std::string& value) {
  return parsed_text(value, "label");
}

inline std::string verbatim(const std::string& value) { return value; }

}  // namespace dlock::option_rows
