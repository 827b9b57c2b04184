// Numbers in text.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace dlock {

// Removes the digits in front of `text`, and for a signed type a minus before them;
// returns their number. Nothing, and `text` is unchanged, if there is none or if it does
// not fit.
template <std::integral Number>
std::optional<Number> take_number(std::string_view& text) {
  Number number{};
  const auto* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// The number that all of `text` is.
template <std::integral Number>
std::optional<Number> number_in(std::string_view text) {
  const auto number = take_number<Number>(text);
  return text.empty() ? number : std::nullopt;
}

}  // namespace dlock
