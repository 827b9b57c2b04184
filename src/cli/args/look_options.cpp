#include <utility>

#include "cli/args/options.hpp"
#include "util/glob.hpp"

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
          std::string("--") + wanted + " and --" + name + " cannot be combined",
          is_from_file(settings, name));
    }
    wanted = name;
    options.form = form;
  }
  options.held = flag(settings, "held");
  constexpr Choice<ListOrder> orders[] = {{"name", ListOrder::name},
                                          {"age", ListOrder::age}};
  choice(settings, "sort", orders, options.order);
  return options;
}

HistoryOptions history_options(const Settings& settings,
                               const std::vector<std::string>& operands) {
  HistoryOptions options;
  if (!operands.empty()) options.pattern = operands.front();
  options.name = literal_of(options.pattern);
  if (options.name) parsed_name(*options.name);
  with_setting(settings, "limit", [&](const std::string& value) {
    options.limit = parsed_number(value, 1, 1'000'000);
  });
  options.failed = flag(settings, "failed");
  const auto span = [&](const char* name, std::optional<milliseconds>& target) {
    with_setting(settings, name, [&](const std::string& value) {
      const auto parsed = parsed_duration(value);
      if (parsed.count() > 0) target = parsed;
    });
  };
  span("since", options.since);
  span("succeeded-within", options.succeeded_within);
  if (!options.succeeded_within) return options;
  for (const auto* other : {"failed", "since"}) {
    if (settings.count(other) > 0 && !is_from_file(settings, other)) {
      throw excluded(settings, "succeeded-within", other);
    }
  }
  if (!options.name) {
    throw UsageError(operands.empty()
                         ? "which lock? --succeeded-within needs its name"
                         : "--succeeded-within needs the name of one lock, not a pattern "
                           "(with \\ before * ? [ and \\)",
                     is_from_file(settings, "succeeded-within"));
  }
  return options;
}

}  // namespace dlock
