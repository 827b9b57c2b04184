#include "cli/args/settings.hpp"

#include "util/nearest.hpp"
#include "util/text.hpp"

namespace dlock {

bool flag(const Settings& settings, std::string_view name) {
  bool set = false;
  with_setting(settings, name, [&](const std::string& value) {
    if (value != "true" && value != "false") {
      throw UsageError("expected true or false, not '" + printable(value, 60) + "'");
    }
    set = value == "true";
  });
  return set;
}

void duration(const Settings& settings, std::string_view name, milliseconds& target) {
  with_setting(settings, name,
               [&](const std::string& value) { target = parsed_duration(value); });
}

std::string file_name(const Settings& settings, std::string_view name) {
  std::string path;
  with_setting(settings, name, [&](const std::string& value) {
    if (value.empty()) throw UsageError("missing file name");
    if (value.find('\0') != std::string::npos) throw UsageError("invalid file name");
    path = value;
  });
  return path;
}

UsageError no_choice(const std::string& value,
                     const std::vector<std::string_view>& words) {
  std::string listed;
  for (const auto& word : words) {
    if (!listed.empty()) listed += &word == &words.back() ? " or " : ", ";
    listed += word;
  }
  return UsageError("expected " + listed + ", not '" + printable(value, 60) + "'" +
                    did_you_mean(value, words));
}

bool is_from_file(const Settings& settings, std::string_view name) {
  const auto found = settings.find(name);
  return found != settings.end() && is_file(found->second.source);
}

bool gives_way(const Settings& settings, std::string_view name, std::string_view other) {
  if (!is_from_file(settings, name)) return false;
  const auto beside = settings.find(other);
  return beside == settings.end() ||
         beside->second.source < settings.find(name)->second.source;
}

UsageError excluded(const Settings& settings, std::string_view name,
                    std::string_view other) {
  return UsageError(
      "--" + std::string(name) + " and --" + std::string(other) + " cannot be combined",
      is_from_file(settings, name) && is_from_file(settings, other));
}

}  // namespace dlock
