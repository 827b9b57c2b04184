// The options of a verb, as CLI11 parses them.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "cli/sources.hpp"
#include "cli/verb_spec.hpp"

namespace dlock {

// What was asked for instead of the verb.
enum class Asked { help, version };

// What `options`, words as sorted_words() leaves them, say to `verb`. The last one of
// several that are alike counts. Throws UsageError.
std::variant<OptionValues, Asked> option_values(const VerbSpec& verb,
                                                const std::vector<std::string>& options);

}  // namespace dlock
