#include "cli/args/value_check.hpp"

#include "cli/args/options.hpp"

namespace dlock {
namespace {

// Valid operands to check the settings with.
const std::string some_name = "name";
const std::vector<std::string> some_command{"true"};

// As the verb parses them, except that the token file is not read.
void take_lease_options(Settings settings) {
  require_one_token(settings);
  settings.erase("token-file");
  settings.try_emplace(
      "token", Setting{std::string(32, '0'), Setting::Source::command_line, "--token"});
  lease_options(settings, some_name);
}

// Parses the verb's own settings.
void take_options(Verb verb, const Settings& settings) {
  switch (verb) {
    case Verb::run: run_options(settings, some_name, some_command); break;
    case Verb::acquire: acquire_options(settings, some_name); break;
    case Verb::renew:
    case Verb::release: take_lease_options(settings); break;
    case Verb::check: check_options(settings, some_name, {some_name, ""}); break;
    case Verb::list: list_options(settings, {}); break;
    case Verb::break_lock: break_options(settings, some_name); break;
    case Verb::cache: {
      const bool runs = !flag(settings, "forget") && !flag(settings, "show");
      cache_options(settings, some_name, runs ? some_command : decltype(some_command){});
      break;
    }
    case Verb::limit: {
      std::vector<std::string> operands{some_name};
      if (!flag(settings, "show") && !flag(settings, "reset")) operands.push_back("1/1s");
      limit_options(settings, operands, {});
      break;
    }
    case Verb::history: history_options(settings, {some_name}); break;
    case Verb::fence:
    case Verb::status:
    case Verb::watch:
    case Verb::doctor:
    case Verb::config:
    case Verb::help: break;  // they have no options of their own
  }
}

}  // namespace

void check_value(const VerbSpec& verb, const std::string& name, const Setting& setting) {
  const Settings alone{{name, setting}};
  try {
    common_options(alone);
    take_options(verb.verb, alone);
  } catch (const BadValue&) {
    throw;
  } catch (const UsageError&) {
    // It needs another setting, which may come from elsewhere.
  }
}

void check_together(const VerbSpec& verb, const Settings& settings) {
  common_options(settings);
  take_options(verb.verb, settings);
}

}  // namespace dlock
