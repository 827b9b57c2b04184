#include "lock/lease.hpp"

#include <algorithm>

#include "util/text.hpp"

namespace dlock {

bool is_valid(const LockName& name) {
  constexpr std::size_t longest = 255;
  const auto is_part = [](const std::string& text) {
    return !text.empty() && text.size() <= longest && is_printable_utf8(text);
  };
  return is_part(name.name_space) && is_part(name.name);
}

std::string text_of(const Token& token) {
  return hex(token.bytes.data(), token.bytes.size());
}

std::optional<Token> token_from(std::string_view text) {
  Token token;
  if (!from_hex(text, token.bytes.data(), token.bytes.size())) return std::nullopt;
  return token;
}

Fence greatest_plausible_fence(WallTime now, Fence most_report) {
  constexpr std::chrono::hours farthest_ahead{32 * 24};
  const auto clock = static_cast<std::uint64_t>(std::max<std::int64_t>(now.count(), 0));
  const auto base =
      std::min(std::max(Fence{clock}, most_report), greatest_believed_fence);
  return std::min(Fence{base.number + std::uint64_t{WallTime(farthest_ahead).count()}},
                  greatest_believed_fence);
}

bool is_held_by(const LockInfo& lock, Fence fence, milliseconds at_least) {
  return std::any_of(
      lock.holders.begin(), lock.holders.end(), [&](const HolderInfo& holder) {
        return !holder.foreign && !holder.run_ended && holder.fence == fence &&
               holder.expires_in.value_or(milliseconds::max()) >= at_least;
      });
}

std::vector<std::string> shortened_command(const std::vector<std::string>& command) {
  constexpr std::size_t most = 4096;
  std::vector<std::string> kept;
  std::size_t size = 0;
  for (const auto& word : command) {
    size += word.size() + 1;
    if (size > most) {
      kept.emplace_back("...");
      break;
    }
    kept.push_back(word);
  }
  return kept;
}

}  // namespace dlock
