#include "store/redis/permissions.hpp"

#include <algorithm>
#include <utility>

#include "util/text.hpp"

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

std::string form_of(const Permission& right, const std::string& key,
                    const std::string& prefix) {
  auto form = replaced(std::string(right.form), "|", " ");
  return replaced(replaced(std::move(form), "KEY", key), "NAMESPACE:", prefix);
}

std::string acl_name(const Permission& right) {
  return lower_case(words_of(right.form).front());
}

std::string shown_name(const Permission& right) {
  return replaced(words_of(right.form).front(), "|", " ");
}

std::vector<std::string> trial_of(const Permission& right, const std::string& key,
                                  const std::string& prefix) {
  // Without arguments the others have no effect.
  if (right.how != How::tried) return {shown_name(right)};
  return words_of(form_of(right, key, prefix));
}

}  // namespace dlock::redis
