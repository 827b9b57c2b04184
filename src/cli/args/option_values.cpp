#include "cli/args/option_values.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/args/version.hpp"
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

bool mentions(const std::string& word, const OptionSpec& spec) {
  if (word.starts_with("--")) {
    return word.compare(2, word.find('=', 2) - 2, spec.name) == 0;
  }
  return spec.letter != 0 && word.starts_with('-') &&
         word.find(spec.letter) != std::string::npos;
}

// CLI11 compares each added option with all earlier ones, which takes a twentieth of a
// run's time for the options of a verb. Options that no word mentions are not added.
template <typename Specs>
void add_mentioned(CLI::App& app, const Specs& specs,
                   const std::vector<std::string>& words) {
  for (const OptionSpec& spec : specs) {
    if (std::any_of(words.begin(), words.end(),
                    [&](const std::string& word) { return mentions(word, spec); })) {
      add(app, spec);
    }
  }
}

// The option that can be repeated. In the environment its values are separated in the
// same way.
constexpr std::string_view address_map = "address-map";

std::string joined(const std::vector<std::string>& values) {
  std::string all;
  for (const auto& value : values) all += (all.empty() ? "" : ",") + value;
  return all;
}

// Only the last option can lack its value. Among letters in one word, only the last
// letter takes a value.
std::string missing_value(const std::string& option) {
  const bool is_long = option.starts_with("--");
  return (is_long ? printable(option, 60) : std::string("-") + option.back()) +
         " needs a value";
}

// CLI11's error message, without line breaks.
std::string explained(const CLI::ParseError& error) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return printable(text, 200);
}

}  // namespace

std::variant<OptionValues, Asked> option_values(const VerbSpec& verb,
                                                const std::vector<std::string>& options) {
  // Most runs have no options.
  if (options.empty()) return OptionValues();
  CLI::App app;  // which has -h,--help
  app.set_version_flag("--version", program_version);
  add_mentioned(app, verb.own(), options);
  add_mentioned(app, common_specs(), options);
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
  for (const auto* option : app.parse_order()) {
    const auto name = option->get_single_name();
    auto& value = values[name];
    if (name != address_map || value.empty()) {
      value = name == address_map ? joined(option->results()) : option->results().back();
    }
    // The last one of these two counts.
    if (name == "quiet") values.erase("verbose");
    if (name == "verbose") values.erase("quiet");
  }
  return values;
}

}  // namespace dlock
