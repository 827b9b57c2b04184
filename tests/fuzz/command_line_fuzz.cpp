// Whole command lines, parsed into settings.

#include "cli/args/app.hpp"
#include "fuzz.hpp"
#include "util/failure.hpp"

using namespace dlock;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto args = fuzz::parts_of(fuzz::text_of(data, size));
  // No configuration file except the one that is named.
  ::setenv("HOME", "/nonexistent", 1);
  for (const char* config : {"", "/dev/null/none"}) {
    ::setenv("DLOCK_CONFIG", config, 1);
    try {
      const auto wanted = parsed(args);
      const auto* invocation = std::get_if<Invocation>(&wanted);
      if (invocation == nullptr) continue;
      common_options(invocation->settings);
      const auto& operands = invocation->operands;
      if (invocation->verb->verb == Verb::run) {
        run_options(invocation->settings, operands.at(0), invocation->command);
      } else if (invocation->verb->verb == Verb::acquire) {
        acquire_options(invocation->settings, operands.at(0));
      } else if (invocation->verb->verb == Verb::check) {
        const auto name = operands.empty() ? std::nullopt : std::optional(operands[0]);
        check_options(invocation->settings, name, {"job", "job=1"});
      }
    } catch (const UsageError& error) {
      fuzz::require_message(error);
    } catch (const Failure& failure) {
      fuzz::require_message(failure);
    }
  }
  return 0;
}
