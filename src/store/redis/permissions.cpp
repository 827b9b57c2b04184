#include "store/redis/permissions.hpp"

#include <algorithm>
#include <cctype>

namespace dlock::redis {

std::vector<std::string> words_of(std::string_view command) {
  std::vector<std::string> words;
  while (!command.empty()) {
    const auto end = std::min(command.find(' '), command.size());
    words.emplace_back(command.substr(0, end));
    command.remove_prefix(std::min(end + 1, command.size()));
  }
  return words;
}

// What stands for them begins a word. Not before the split: either may contain a blank.
std::vector<std::string> command_of(const Permission& right, const std::string& key,
                                    const std::string& prefix) {
  auto words = words_of(right.form);
  for (auto& word : words) {
    constexpr std::string_view of_key = "KEY";
    constexpr std::string_view of_prefix = "NAMESPACE:";
    if (word.starts_with(of_key))
      word.replace(0, of_key.size(), key);
    else if (word.starts_with(of_prefix))
      word.replace(0, of_prefix.size(), prefix);
  }
  return words;
}

std::string shown_name(const Permission& right) {
  std::string name(right.name);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return c == '|' ? ' ' : static_cast<char>(std::toupper(c));
  });
  return name;
}

std::vector<Trial> trials_of(std::span<const Permission> rights, const std::string& key,
                             const std::string& prefix) {
  std::vector<Trial> trials;
  for (const auto& right : rights) {
    const bool is_tried = right.how == Permission::How::tried;
    // Without arguments the others have no effect.
    trials.push_back({&right,
                      is_tried ? command_of(right, key, prefix)
                               : std::vector<std::string>{shown_name(right)},
                      is_tried});
  }
  return trials;
}

}  // namespace dlock::redis
