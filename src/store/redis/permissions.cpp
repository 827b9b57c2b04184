#include "store/redis/permissions.hpp"

#include <algorithm>
#include <utility>

#include "util/text.hpp"

namespace dlock::redis {

std::vector<std::string> words_of(std::string_view command) {
  const auto words = split(command, ' ');
  return {words.begin(), words.end()};
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
