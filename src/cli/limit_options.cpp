#include "cli/claim_options.hpp"

namespace dlock {

LimitOptions limit_options(const Settings& settings, const std::string& name,
                           const std::string& rate, std::vector<std::string> command) {
  LimitOptions options;
  options.name = parsed_name(name);
  options.rate = parsed_rate(rate);
  options.command = std::move(command);
  options.wait = chosen_wait(settings);
  return options;
}

}  // namespace dlock
