// Helpers for all fuzz targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "util/text.hpp"

namespace dlock::fuzz {

// Prints what does not hold and aborts, so that libFuzzer keeps the input.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  // The bytes of libFuzzer can be read as characters.
  return {reinterpret_cast<const char*>(data), size};
}

// The parts of `text` between NUL bytes, as the kernel passes arguments.
inline std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  for (;;) {
    const auto end = text.find('\0');
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Every message is one line without control characters, whatever text it quotes.
inline void require_message(const std::exception& error) {
  require(is_printable_utf8(error.what()), "a message is printable");
  require(*error.what() != '\0', "a message is not empty");
}

}  // namespace dlock::fuzz
