#include <utility>

#include "cli/options.hpp"

namespace dlock {

ListOptions list_options(const Settings& settings,
                         const std::vector<std::string>& operands) {
  using Form = ListOptions::Form;
  constexpr std::pair<const char*, Form> forms[] = {
      {"json", Form::json}, {"prometheus", Form::metrics}, {"live", Form::live}};
  ListOptions options;
  if (!operands.empty()) options.pattern = operands.front();
  const char* wanted = nullptr;
  for (const auto& [name, form] : forms) {
    if (!flag(settings, name)) continue;
    if (wanted != nullptr &&
        is_from_file(settings, name) != is_from_file(settings, wanted)) {
      if (is_from_file(settings, name)) continue;
    } else if (wanted != nullptr) {
      throw UsageError(
          std::string("--") + wanted + " and --" + name + " exclude each other",
          is_from_file(settings, name));
    }
    wanted = name;
    options.form = form;
  }
  return options;
}

HistoryOptions history_options(const Settings& settings, const std::string& name) {
  HistoryOptions options;
  options.name = parsed_name(name);
  with_setting(settings, "limit", [&](const std::string& value) {
    options.limit = parsed_number(value, 1, 1'000'000);
  });
  return options;
}

}  // namespace dlock
