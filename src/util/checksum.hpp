// A checksum against damage.
#pragma once

#include <cstdint>
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

}  // namespace dlock
