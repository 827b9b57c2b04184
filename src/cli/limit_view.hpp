// What there is to see of a rate limit.
#pragma once

#include <string>

#include "cli/exit_status.hpp"
#include "cli/options.hpp"
#include "lock/rates.hpp"
#include "util/json.hpp"

namespace dlock {

// As the user would write it: "5/800ms", "100/1m".
std::string text_of(const Rate& rate);

// "5/1s: 2 remaining, the next at once" and a line for each who waits.
std::string limit_text(const std::string& name, const LimitInfo& limit);
Json json_of(const std::string& name, const LimitInfo& limit);

// `dlock limit NAME --show`, which changes nothing, and `--reset`.
Exit show_limit(const CommonOptions& common, const std::string& name);
Exit reset_limit(const CommonOptions& common, const std::string& name);

}  // namespace dlock
