#include "cli/args/claim_options.hpp"

namespace dlock {
namespace {

LimitOptions::Action action(const Settings& settings) {
  const bool shows = flag(settings, "show");
  const bool resets = flag(settings, "reset");
  if (shows && resets) throw excluded(settings, "show", "reset");
  if (shows) return LimitOptions::Action::show;
  return resets ? LimitOptions::Action::reset : LimitOptions::Action::admit;
}

}  // namespace

LimitOptions limit_options(const Settings& settings,
                           const std::vector<std::string>& operands,
                           std::vector<std::string> command) {
  LimitOptions options;
  options.action = action(settings);
  options.name = parsed_name(operands.at(0));
  options.wait = chosen_wait(settings);
  if (options.action != LimitOptions::Action::admit) {
    if (operands.size() > 1 || !command.empty()) {
      const bool shows = options.action == LimitOptions::Action::show;
      throw UsageError(
          "--show and --reset take only a name (usage: dlock limit NAME "
          "--show)",
          is_from_file(settings, shows ? "show" : "reset"));
    }
    return options;
  }
  if (operands.size() < 2) {
    throw UsageError(
        "missing rate, such as 5/1s (usage: dlock limit [OPTIONS] "
        "NAME N/PERIOD [--] [COMMAND [ARG...]])");
  }
  options.rate = parsed_rate(operands.at(1));
  options.command = std::move(command);
  return options;
}

}  // namespace dlock
