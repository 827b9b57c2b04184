#include "cli/args/help.hpp"

#include <algorithm>

#include "cli/args/exit_text.hpp"

namespace dlock {
namespace {

struct GroupTitle {
  VerbGroup group;
  std::string_view title;
};

constexpr GroupTitle groups[] = {
    {VerbGroup::run, "Run"},
    {VerbGroup::by_hand, "By hand"},
    {VerbGroup::look, "Inspect"},
    {VerbGroup::operate, "Operate"},
    {VerbGroup::rate_and_cache, "Rate limit and cache"},
};

// Two options that the parser adds.
constexpr OptionSpec help_specs[] = {
    {"help", 'h', "", "", "show this help"},
    {"version", 0, "", "", "show the version"},
};

constexpr std::string_view examples =
    "Examples:\n"
    "  dlock run nightly-job -- ./backup.sh        skip it if still running\n"
    "  dlock run -w 5m deploy -- make deploy       queue for up to 5 minutes\n"
    "  dlock run -n 3 -w forever gpu -- ./train    at most 3 at a time\n"
    "  dlock cache --ttl 10m report -- ./report    at most once in 10 minutes\n"
    "  dlock limit -w 1m api 5/1s -- curl URL      at most 5 in any second\n"
    "  dlock status nightly-job                    who holds it\n";

// A term, indented, with its explanation from this column on.
std::string line(std::string what, std::string_view help, std::size_t column) {
  what.insert(0, 2, ' ');
  what.resize(std::max(column, what.size() + 1), ' ');
  return what.append(help) + '\n';
}

std::string line(const OptionSpec& spec) {
  std::string names = "--" + std::string(spec.name);
  if (spec.letter != 0) names = std::string("-") + spec.letter + "," + names;
  if (!spec.value.empty()) names += " " + std::string(spec.value);
  return line(std::move(names), spec.help, 33);
}

std::string exit_codes_of(Verb verb) {
  std::string text = "\nExit codes:\n";
  if (passes_status_on(verb)) {
    text += "  the command's own exit code or signal; or\n";
  } else if (verb == Verb::watch) {
    text += "  ended by the signal that interrupts it; or\n";
  }
  for (const auto& exit : exit_texts(verb)) {
    text += line(std::to_string(code_of(exit.status)), exit.text, 7);
  }
  return text;
}

}  // namespace

std::string general_help(std::span<const VerbSpec> verbs) {
  std::string text =
      "Usage: dlock [OPTIONS] VERB [OPTIONS] [ARGS]\n\n"
      "  Runs commands under named locks, for shell scripts and cron.\n\n";
  for (const auto& [group, title] : groups) {
    text.append(title) += ":\n";
    for (const auto& verb : verbs) {
      if (verb.group == group) text += line(std::string(verb.name), verb.help, 12);
    }
    text += '\n';
  }
  text +=
      "Options and exit codes of a verb: dlock VERB --help. Full manual: man dlock.\n\n";
  return text.append(examples);
}

std::string help_of(const VerbSpec& verb, std::span<const OptionSpec> common) {
  auto text = "Usage: dlock " + std::string(verb.usage) + "\n\n  " +
              std::string(verb.help) + "\n\n";
  if (verb.first != verb.last) {
    text += "Options:\n";
    std::for_each(verb.first, verb.last, [&](const auto& spec) { text += line(spec); });
    text += '\n';
  }
  text += "Common options:\n";
  for (const auto& spec : common) text += line(spec);
  for (const auto& spec : help_specs) text += line(spec);
  return text + exit_codes_of(verb.verb);
}

}  // namespace dlock
