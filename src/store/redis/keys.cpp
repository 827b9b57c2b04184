#include "store/redis/keys.hpp"

#include "util/text.hpp"

namespace dlock::redis {

std::string key_of(const LockName& lock) {
  return percent_encoded(lock.name_space) + ":{" + percent_encoded(lock.name) + "}";
}

std::optional<LockName> lock_of(std::string_view key) {
  const auto open = key.find(":{");
  if (open == std::string_view::npos) return std::nullopt;
  const auto close = key.find('}', open);
  if (close == std::string_view::npos) return std::nullopt;
  const auto behind = key.substr(close + 1);
  if (!behind.empty() && behind.front() != ':') return std::nullopt;
  if (behind.starts_with(":limit")) return std::nullopt;  // a limit's key, not a lock's
  const auto name_space = percent_decoded(key.substr(0, open));
  const auto name = percent_decoded(key.substr(open + 2, close - open - 2));
  if (!name_space || !name || name->empty()) return std::nullopt;
  return LockName{*name_space, *name};
}

std::string index_of(const std::string& name_space) {
  return percent_encoded(name_space) + ":locks";
}

std::string cursor_of(const std::string& name_space) {
  return index_of(name_space) + ":cursor";
}

std::optional<LockName> lock_in_index(const std::string& name_space,
                                      std::string_view element) {
  return lock_of(percent_encoded(name_space) + ":{" + std::string(element) + "}");
}

std::string pattern_for(const std::string& name_space) {
  // Percent-encoded text contains no character with a meaning in a pattern.
  return percent_encoded(name_space) + ":{*}*";
}

std::string channel_pattern_for(const std::string& name_space) {
  // ACL permissions for PSUBSCRIBE require exactly the pattern that was granted, so this
  // is the simplest one.
  return percent_encoded(name_space) + ":*";
}

}  // namespace dlock::redis
