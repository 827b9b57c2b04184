// Shows a rate limit.
#pragma once

#include <string>

#include "cli/args/exit_status.hpp"
#include "cli/args/options.hpp"
#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "util/json.hpp"

namespace dlock {

// As written on the command line: "5/800ms", "100/1m".
std::string text_of(const Rate& rate);

// "5/1s, 2 remaining" and one line per waiter; names the `store` if it has no such limit.
std::string limit_text(const std::string& name, const LimitInfo& limit,
                       const std::string& store);
Json json_of(const std::string& name, const LimitInfo& limit);

// `dlock limit NAME --show`, which changes nothing, and `dlock limit NAME --reset`.
Exit show_limit(const CommonOptions& common, const std::string& name);
Exit reset_limit(const CommonOptions& common, const std::string& name);

}  // namespace dlock
