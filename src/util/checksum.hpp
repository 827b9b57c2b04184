// A checksum against damage.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dlock {

// FNV-1a: a few lines, and any flipped bit or cut tail shows. It is against damage, not
// against forgery: who may write a file may write anything. `hash` is that of the bytes
// before these, if there are any.
inline std::uint64_t checksum(std::string_view bytes,
                              std::uint64_t hash = 0xcbf29ce484222325u) {
  for (const char c : bytes) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return hash;
}

// As it stands in files and on servers: 16 hexadecimal digits.
inline std::string checksum_text(std::uint64_t hash) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, hash >>= 4) {
    *digit = digits[hash & 15];
  }
  return text;
}

}  // namespace dlock
