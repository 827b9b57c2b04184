#include "store/etcd/keys.hpp"

#include <array>
#include <charconv>

#include "util/checksum.hpp"
#include "util/text.hpp"

namespace dlock::etcd {
namespace {

constexpr std::string_view runs_folder = ".runs/";

// Characters that would end the part, or make it look like one of dlock's own folders.
std::string encoded(std::string_view part) {
  std::string text;
  for (const char c : part) {
    const bool leads = text.empty() && c == '.';
    if (c == '/') {
      text += "%2F";
    } else if (c == '%') {
      text += "%25";
    } else if (leads) {
      text += "%2E";
    } else {
      text += c;
    }
  }
  return text;
}

// The inverse of encoded().
std::string decoded(std::string_view text) {
  std::string part;
  while (!text.empty()) {
    const auto code = text.substr(0, 3);
    const bool is_code = code == "%2F" || code == "%25" || code == "%2E";
    part += code == "%2F" ? '/' : code == "%2E" ? '.' : text.front();
    text.remove_prefix(is_code ? code.size() : 1);
  }
  return part;
}

std::int64_t positive(std::uint64_t sum) {
  const auto cut = static_cast<std::int64_t>(sum & INT64_MAX);
  return cut == 0 ? 1 : cut;
}

}  // namespace

std::string namespace_prefix(const std::string& name_space) {
  return encoded(name_space) + "/";
}

std::string namespace_runs_prefix(const std::string& name_space) {
  return namespace_prefix(name_space) + std::string(runs_folder);
}

std::string queue_prefix(const LockName& lock) {
  return namespace_prefix(lock.name_space) + encoded(lock.name) + "/";
}

std::string runs_prefix(const LockName& lock) {
  return namespace_runs_prefix(lock.name_space) + encoded(lock.name) + "/";
}

std::string now_key(const LockName& lock, std::string_view id) {
  return runs_prefix(lock).append("now/").append(id);
}

std::string past_key(const LockName& lock, Fence fence) {
  return runs_prefix(lock) + "past/" + checksum_text(fence.number);  // in their order
}

std::string told_key(const LockName& lock, std::string_view id) {
  return runs_prefix(lock).append("told/").append(id);
}
std::string taken_key(const LockName& lock, std::string_view id) {
  return runs_prefix(lock).append("taken/").append(id);
}

std::string refused_key(const LockName& lock) { return runs_prefix(lock) + "refused"; }

std::string superseded_key(const LockName& lock) {
  return runs_prefix(lock) + "superseded";
}

std::string never_key(const LockName& lock) { return runs_prefix(lock) + "never"; }

std::string register_key(const LockName& resource) {
  return namespace_prefix(resource.name_space) + ".fence/" + encoded(resource.name);
}

std::optional<KeyParts> parts_of(std::string_view key, const std::string& name_space) {
  const auto all = namespace_prefix(name_space);
  if (!key.starts_with(all)) return std::nullopt;
  key.remove_prefix(all.size());
  KeyParts parts;
  parts.in_queue = !key.starts_with(runs_folder);
  if (!parts.in_queue) key.remove_prefix(runs_folder.size());
  const auto end = key.find('/');
  if (end == std::string_view::npos) return std::nullopt;
  parts.name = decoded(key.substr(0, end));
  const bool is_one = encoded(parts.name) == key.substr(0, end);
  if (!is_one || !is_valid({name_space, parts.name})) return std::nullopt;
  parts.rest = key.substr(end + 1);
  return parts;
}

std::int64_t lease_for(const Token& token, unsigned times) {
  return positive(checksum(text_of(token), times));
}

std::string id_of(std::int64_t lease) {
  std::array<char, 16> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(),
                                 static_cast<std::uint64_t>(lease), 16)
                       .ptr;
  return {text.data(), end};
}

std::int64_t lease_of_day(const std::string& name_space, WallTime now) {
  const auto day = std::chrono::floor<std::chrono::days>(now).count();
  return positive(checksum("dlock day " + name_space, static_cast<std::uint64_t>(day)));
}

}  // namespace dlock::etcd
