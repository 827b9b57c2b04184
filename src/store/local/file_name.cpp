#include "store/local/file_name.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace dlock::local {
namespace {

constexpr std::size_t digits = 32;

std::string_view ending(Kept kept) { return kept == Kept::lock ? ".lock" : ".limit"; }

}  // namespace

FileKey key_of(const LockName& name, Kept kept) {
  std::string text(ending(kept));
  text += '\0';  // never part of a name
  text += name.name_space;
  text += '\0';
  text += name.name;
  const auto hash = ::XXH3_128bits(text.data(), text.size());
  char hex[digits + 1];
  std::snprintf(hex, sizeof hex, "%016" PRIx64 "%016" PRIx64, hash.high64, hash.low64);
  FileKey key;
  key.file = hex;
  key.file += ending(kept);
  // Two locks that share a byte by chance only wait for each other.
  constexpr std::uint64_t first = all_locks_mutex + 1;
  key.mutex = static_cast<MutexByte>(first + hash.low64 % (first - 1));
  return key;
}

std::string with_name(const LockName& name, std::string_view value) {
  std::string payload;
  payload.reserve(2 + name.name_space.size() + name.name.size() + value.size());
  for (const auto* part : {&name.name_space, &name.name}) {
    payload += static_cast<char>(part->size());  // 255 at most
    payload += *part;
  }
  payload += value;
  return payload;
}

std::optional<Named> named_in(std::string_view payload) {
  Named named;
  for (auto* part : {&named.name.name_space, &named.name.name}) {
    if (payload.empty()) return std::nullopt;
    const std::size_t size = static_cast<unsigned char>(payload.front());
    if (size > payload.size() - 1) return std::nullopt;
    *part = payload.substr(1, size);
    payload.remove_prefix(1 + size);
  }
  if (!is_valid(named.name)) return std::nullopt;
  named.value = payload;
  return named;
}

bool is_file_of(Kept kept, std::string_view file) {
  const auto end = ending(kept);
  return file.size() == digits + end.size() && file.ends_with(end) &&
         std::all_of(file.begin(), file.begin() + digits, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace dlock::local
