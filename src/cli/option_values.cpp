#include "cli/option_values.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "util/text.hpp"

namespace dlock {
namespace {

void add(CLI::App& app, const OptionSpec& spec) {
  std::string names = "--" + std::string(spec.name);
  if (spec.letter != 0) names = std::string("-") + spec.letter + "," + names;
  if (spec.value.empty()) {
    app.add_flag(names);
  } else {
    app.add_option(names)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

// A value is missing only behind the last option. Of letters in one word the last one
// takes it.
std::string missing_value(const std::string& option) {
  const bool is_long = option.starts_with("--");
  return (is_long ? printable(option, 60) : std::string("-") + option.back()) +
         " needs a value";
}

// CLI11's words for what is wrong, without its line breaks.
std::string explained(const CLI::ParseError& error) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return printable(text, 200);
}

}  // namespace

std::variant<OptionValues, Asked> option_values(const VerbSpec& verb,
                                                const std::vector<std::string>& options) {
  // Most runs have none, and to set CLI11 up takes a twentieth of a run.
  if (options.empty()) return OptionValues();
  CLI::App app;  // which has -h,--help
  app.set_version_flag("--version", DLOCK_VERSION);
  for (const auto& spec : verb.own()) add(app, spec);
  // A group of their own: CLI11 compares each option with all others of its group.
  auto* common = app.add_option_group("common");
  for (const auto& spec : common_specs()) add(*common, spec);
  std::vector<std::string> reversed(options.rbegin(), options.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return Asked::help;
  } catch (const CLI::CallForVersion&) {
    return Asked::version;
  } catch (const CLI::ArgumentMismatch&) {
    throw UsageError(missing_value(options.back()));
  } catch (const CLI::ParseError& error) {
    throw UsageError(explained(error));
  }
  OptionValues values;
  for (const CLI::App* group : {&app, static_cast<CLI::App*>(common)}) {
    for (const auto* option : group->parse_order()) {
      values[option->get_single_name()] = option->results().back();
    }
  }
  return values;
}

}  // namespace dlock
