#include "cli/verbs/verbs.hpp"

#include <algorithm>

namespace dlock {

// A separate namespace, because statuses have names that functions have elsewhere.
namespace verb_rows {
namespace {

// Valid operands to check the settings with.
const std::string some_name = "name";
const std::vector<std::string> some_command{"true"};

// As the verb parses them, except that the token file is not read.
void check_lease(const Settings& settings) {
  auto chosen = in_force(settings, own_exclusions());
  chosen.erase("token-file");
  chosen.try_emplace(
      "token", Setting{std::string(32, '0'), Setting::Source::command_line, "--token"});
  lease_options(chosen, some_name);
}

void check_cache(const Settings& settings) {
  const bool runs = !flag(settings, "forget") && !flag(settings, "show");
  cache_options(settings, some_name, runs ? some_command : std::vector<std::string>());
}

void check_limit(const Settings& settings) {
  std::vector<std::string> operands{some_name};
  if (!flag(settings, "show") && !flag(settings, "reset")) operands.push_back("1/1s");
  limit_options(settings, operands, {});
}

constexpr std::size_t most_names = 10'000;  // that a verb accepts

using enum ExitStatus;

constexpr VerbSpec verbs[] = {
    {.verb = Verb::run,
     .group = VerbGroup::run,
     .usage = "run [OPTIONS] NAME [--] COMMAND [ARG...]",
     .help = "hold a lock while a command runs",
     .command = CommandUse::for_output,
     .perform = run_verb,
     .check =
         [](const Settings& settings) { run_options(settings, some_name, some_command); },
     .exits = {{success, "skipped: another run counts as this one (--dedupe)"},
               {not_obtained,
                "not acquired: held by others, or wait over (-E sets this code)"},
               {lost, "the lock was lost before the command had exited"},
               {timed_out, "--timeout stopped the command"}}},
    {.verb = Verb::acquire,
     .group = VerbGroup::manual,
     .usage = "acquire [OPTIONS] NAME",
     .help = "take a lock and print its token",
     .perform = acquire_verb,
     .check = [](const Settings& settings) { acquire_options(settings, some_name); },
     .exits = {{success, "acquired; the token is printed"},
               {not_obtained, "not acquired: held by others, or wait over"}}},
    {.verb = Verb::renew,
     .group = VerbGroup::manual,
     .usage = "renew [OPTIONS] NAME",
     .help = "extend the lease of an acquired lock",
     .perform = renew_verb,
     .check = check_lease,
     .exits = {{success, "renewed"}, {lost, "the lock is no longer held by this token"}}},
    {.verb = Verb::release,
     .group = VerbGroup::manual,
     .usage = "release [OPTIONS] NAME",
     .help = "release an acquired lock",
     .perform = release_verb,
     .check = check_lease,
     .exits = {{success, "released"},
               {lost, "the lock is no longer held by this token"}}},
    {.verb = Verb::check,
     .group = VerbGroup::manual,
     .usage = "check [OPTIONS] [NAME]",
     .help = "check whether a lock is still held",
     .least_operands = 0,
     .perform = check_verb,
     .check =
         [](const Settings& settings) {
           check_options(settings, some_name, {some_name, ""});
         },
     .exits = {{success, "the lock is still held"},
               {lost, "the lock is not held any more, or not for long enough"}}},
    {.verb = Verb::fence,
     .group = VerbGroup::manual,
     .usage = "fence [OPTIONS] RESOURCE N",
     .help = "refuse a fencing token that is older than the newest",
     .least_operands = 2,
     .most_operands = 2,
     .operands = {"resource name", "fence"},
     .lock_table = LockTable::none,
     .perform = fence_verb,
     .exits = {{success, "let through"},
               {lost, "stale: a greater fencing token was let through before"}}},
    {.verb = Verb::status,
     .group = VerbGroup::look,
     .usage = "status [OPTIONS] NAME...",
     .help = "show the holders, waiters and last run of a lock",
     .most_operands = most_names,
     .perform = status_verb,
     .exits = {{success, "the lock is held; of several, at least one"},
               {not_held, "the lock is free; of several, all"}}},
    {.verb = Verb::list,
     .group = VerbGroup::look,
     .usage = "list [OPTIONS] [PATTERN]",
     .help = "list the locks in use, and those used before",
     .least_operands = 0,
     .lock_table = LockTable::none,
     .perform = list_verb,
     .check = [](const Settings& settings) { list_options(settings, {}); },
     .exits = {{success, "listed, even if there are no locks"}}},
    {.verb = Verb::watch,
     .group = VerbGroup::look,
     .usage = "watch [OPTIONS] [NAME...]",
     .help = "print lock events as they happen",
     .least_operands = 0,
     .most_operands = most_names,
     .lock_table = LockTable::none,
     .perform = watch_verb},
    {.verb = Verb::history,
     .group = VerbGroup::look,
     .usage = "history [OPTIONS] [PATTERN]",
     .help = "show the last runs of a lock, or of all locks",
     .least_operands = 0,
     .perform = history_verb,
     .check = [](const Settings& settings) { history_options(settings, {some_name}); },
     .exits = {{success, "listed, even if there are no runs; or it succeeded in time"},
               {not_held, "it did not succeed in time (--succeeded-within)"},
               {critical, "the same with --nagios"},
               {unknown, "that is not known: any failure with --nagios"}}},
    {.verb = Verb::break_lock,
     .group = VerbGroup::operate,
     .usage = "break [OPTIONS] NAME...|--host H",
     .help = "take locks from their holders and stop their commands",
     .least_operands = 0,
     .most_operands = most_names,
     .perform = break_verb,
     .check = [](const Settings& settings) { break_options(settings, {some_name}); },
     .exits = {{success, "taken from its holders"},
               {not_held, "nothing held, or not by that fence; or declined"}}},
    {.verb = Verb::doctor,
     .group = VerbGroup::operate,
     .usage = "doctor [OPTIONS]",
     .help = "check the store and recommend fixes",
     .least_operands = 0,
     .most_operands = 0,
     .lock_table = LockTable::none,
     .perform = doctor_verb,
     .check = [](const Settings& settings) { doctor_options(settings); },
     .exits = {{success, "no problems found"},
               {warnings_found, "there are warnings"},
               {errors_found, "there are errors"},
               {unavailable, "cannot write to standard output"}}},
    {.verb = Verb::config,
     .group = VerbGroup::operate,
     .usage = "config [OPTIONS] [NAME]",
     .help = "show every setting and where it comes from",
     .least_operands = 0,
     .lock_table = LockTable::none,
     .perform = config_verb,
     .exits = {{success, "shown; the configuration file is valid"},
               {unavailable, "cannot write to standard output"}}},
    {.verb = Verb::help,
     .group = VerbGroup::operate,
     .usage = "help [VERB|options]",
     .help = "show this help, that of a verb, or the options of every verb",
     .least_operands = 0,
     .lock_table = LockTable::none,
     .exits = {{success, "printed"}, {unavailable, "cannot write to standard output"}}},
    {.verb = Verb::limit,
     .group = VerbGroup::rate_and_cache,
     .usage = "limit [OPTIONS] NAME [N/PERIOD [--] [COMMAND [ARG...]]]",
     .help = "let at most N through in any PERIOD",
     .most_operands = 2,
     .operands = {"limit name", "rate, such as 5/1s"},
     .lock_table = LockTable::none,
     .command = CommandUse::after_answer,
     .perform = limit_verb,
     .check = check_limit,
     .exits = {{success, "let through"},
               {not_obtained, "refused: the rate is exceeded"}}},
    {.verb = Verb::cache,
     .group = VerbGroup::rate_and_cache,
     .usage = "cache [OPTIONS] KEY [--] [COMMAND [ARG...]]",
     .help = "print a command's output, running it only if needed",
     .operands = {"key"},
     .lock_table = LockTable::of_values,
     .command = CommandUse::for_output,
     .perform = cache_verb,
     .check = check_cache,
     .exits = {{success, "printed, described (--show) or removed (--forget)"},
               {not_held, "nothing is stored (--show)"},
               {not_obtained,
                "not acquired: held by others, or wait over (-E sets this code)"},
               {lost, "the lock was lost before the command had exited"}}},
};

}  // namespace
}  // namespace verb_rows

std::span<const VerbSpec> all_verbs() { return verb_rows::verbs; }

const VerbSpec* verb_named(std::string_view name) {
  const auto* found = std::ranges::find(verb_rows::verbs, name, &VerbSpec::name);
  return found == std::end(verb_rows::verbs) ? nullptr : found;
}

std::string_view name_of(Verb verb) {
  return std::ranges::find(all_verbs(), verb, &VerbSpec::verb)->name();
}

std::vector<std::string_view> verb_names() {
  std::vector<std::string_view> names;
  for (const auto& verb : all_verbs()) names.push_back(verb.name());
  return names;
}

bool is_about_lock(const VerbSpec& verb, std::string_view name) {
  if (verb.lock_table == LockTable::of_all) return true;
  return verb.lock_table == LockTable::of_values && name.starts_with("cache:");
}

}  // namespace dlock
