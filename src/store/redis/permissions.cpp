#include "store/redis/permissions.hpp"

#include <algorithm>
#include <cctype>

namespace dlock::redis {

std::vector<std::string> command_of(const Permission& right, const std::string& key,
                                    const std::string& prefix) {
  std::string form(right.form);
  const auto put = [&](std::string_view word, const std::string& value) {
    const auto at = form.find(word);
    if (at != std::string::npos) form.replace(at, word.size(), value);
  };
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < form.size();) {
    const auto end = std::min(form.find(' ', begin), form.size());
    words.push_back(form.substr(begin, end - begin));
    begin = end + 1;
  }
  // Not before the split, because either may contain a blank.
  for (auto& word : words) {
    form = word;
    put("KEY", key);
    put("NAMESPACE:", prefix);
    word = form;
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
