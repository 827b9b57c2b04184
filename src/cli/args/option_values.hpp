// Parses the options of a verb with CLI11.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "cli/args/sources.hpp"
#include "cli/args/verb_spec.hpp"

namespace dlock {

// What was requested instead of running the verb.
enum class Asked { help, version };

// The values of `options`, which are words as sorted_words() returns them. If an option
// is repeated, the last one counts. Throws UsageError.
std::variant<OptionValues, Asked> option_values(const VerbSpec& verb,
                                                const std::vector<std::string>& options);

}  // namespace dlock
