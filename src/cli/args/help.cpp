#include "cli/args/help.hpp"

#include <algorithm>

#include "cli/args/option_table.hpp"

namespace dlock {
namespace {

struct GroupTitle {
  VerbGroup group;
  std::string_view title;
};

constexpr GroupTitle groups[] = {
    {VerbGroup::run, "Run"},
    {VerbGroup::manual, "In a script, step by step"},
    {VerbGroup::look, "Inspect"},
    {VerbGroup::operate, "Operate"},
    {VerbGroup::rate_and_cache, "Rate limit and cache"},
};

constexpr std::string_view examples =
    "Examples:\n"
    "  dlock run nightly-job -- ./backup.sh        skip it if still running\n"
    "  dlock run -w 5m deploy -- make deploy       queue for up to 5 minutes\n"
    "  dlock run -n 3 -w forever gpu -- ./train    at most 3 at a time\n"
    "  dlock cache --ttl 10m report -- ./report    at most once in 10 minutes\n"
    "  dlock limit -w 1m api 5/1s -- curl URL      at most 5 in any second\n"
    "  dlock status nightly-job                    who holds it\n";

// The statuses of every verb, unless its row says something else.
constexpr ExitText usual_exits[] = {
    {ExitStatus::usage, "invalid command line"},
    {ExitStatus::unavailable, "unavailable: the store cannot be reached or used"},
    {ExitStatus::bug, "an internal error, or the guardian was killed"},
    {ExitStatus::permission, "permission denied: login, ACL, certificate or directory"},
    {ExitStatus::misconfigured, "invalid configuration: store URL, file or kind of key"},
    {ExitStatus::no_resources, "out of processes, file descriptors or memory"},
    {ExitStatus::not_executable, "the command is not executable"},
    {ExitStatus::not_found, "the command was not found"},
};

bool applies(const ExitText& exit, const VerbSpec& verb) {
  if (verb.verb == Verb::help) return exit.status == ExitStatus::usage;
  return verb.takes_command() || (exit.status != ExitStatus::not_executable &&
                                  exit.status != ExitStatus::not_found);
}

// A term, indented, with its explanation from this column on.
std::string line(std::string what, std::string_view help, std::size_t column) {
  what.insert(0, 2, ' ');
  what.resize(std::max(column, what.size() + 1), ' ');
  return what.append(help) + '\n';
}

std::string line(const OptionSpec& option) {
  std::string names = "--" + std::string(option.name);
  if (option.letter != 0) names = std::string("-") + option.letter + "," + names;
  if (!option.value.empty()) names += " " + std::string(option.value);
  std::string help(option.help);
  if (const auto place = help.find('%'); place != std::string::npos) {
    help.replace(place, 1, option.usual);
  }
  return line(std::move(names), help, 33);
}

// Every status that dlock itself can exit with for this verb, in ascending order, without
// the command's own status and without deaths by signal.
std::vector<ExitText> exit_texts(const VerbSpec& verb) {
  std::vector<ExitText> texts;
  for (const auto& exit : verb.exits) {
    if (!exit.text.empty()) texts.push_back(exit);
  }
  for (const auto& exit : usual_exits) {
    const bool is_said = std::ranges::count(texts, exit.status, &ExitText::status) > 0;
    if (!is_said && applies(exit, verb)) texts.push_back(exit);
  }
  std::ranges::stable_sort(texts, {}, &ExitText::status);
  return texts;
}

std::string exit_codes_of(const VerbSpec& verb) {
  std::string text = "\nExit codes";
  if (verb.takes_command()) {
    text += ", unless the command sets it, or a signal killed the command";
  } else if (verb.verb == Verb::watch) {
    text += ", unless a signal stops it";
  }
  text += ":\n";
  for (const auto& exit : exit_texts(verb)) {
    text += line(std::to_string(code_of(exit.status)), exit.text, 7);
  }
  return text;
}

}  // namespace

std::string general_help() {
  std::string text =
      "Usage: dlock [OPTIONS] VERB [OPTIONS] [ARGS]\n\n"
      "  Runs commands under named locks, for shell scripts and cron.\n\n";
  for (const auto& [group, title] : groups) {
    text.append(title) += ":\n";
    for (const auto& verb : all_verbs()) {
      if (verb.group == group) text += line(std::string(verb.name()), verb.help, 12);
    }
    text += '\n';
  }
  text +=
      "Options and exit codes of a verb: dlock VERB --help, or man dlock VERB.\n"
      "Options of every verb: dlock help options. Overview: man dlock.\n\n";
  return text.append(examples);
}

std::string help_of(const VerbSpec& verb) {
  auto text =
      "Usage: dlock " + std::string(verb.usage) + "\n  " + std::string(verb.help) +
      (verb.verb == Verb::help ? "" : " (man dlock " + std::string(verb.name()) + ")") +
      "\n\nOptions, besides those of every verb (dlock help options):\n";
  auto own = own_specs(verb.verb);
  for (const auto& option : own) text += line(option);
  if (own.empty()) text += "  none\n";
  return text + exit_codes_of(verb);
}

std::string help_of_options() {
  std::string text =
      "Usage: dlock [OPTIONS] VERB [OPTIONS] [ARGS]\n"
      "  options of every verb (man dlock, and for servers man dlock-stores)\n\n"
      "Options:\n";
  for (const auto& option : common_specs()) text += line(option);
  // The parser adds these two.
  text += line("-h,--help", "show this help", 33);
  return text + line("--version", "show the version", 33);
}

}  // namespace dlock
