#include "cli/args/options.hpp"

namespace dlock {

BreakOptions break_options(const Settings& settings, const std::string& name) {
  BreakOptions options;
  options.name = parsed_name(name);
  with_setting(settings, "fence",
               [&](const std::string& value) { options.fence = parsed_fence(value); });
  options.force = flag(settings, "force");
  options.yes = flag(settings, "yes");
  return options;
}

}  // namespace dlock
