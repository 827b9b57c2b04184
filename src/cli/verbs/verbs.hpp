// The verbs, one function each: run the verb, and return how dlock ends. They throw
// UsageError for settings and operands that they refuse, and Failure.
#pragma once

#include "cli/args/app.hpp"

namespace dlock {

Exit run_verb(const Invocation& invocation);
Exit acquire_verb(const Invocation& invocation);
Exit renew_verb(const Invocation& invocation);
Exit release_verb(const Invocation& invocation);
Exit check_verb(const Invocation& invocation);
Exit fence_verb(const Invocation& invocation);
Exit status_verb(const Invocation& invocation);
Exit list_verb(const Invocation& invocation);
Exit watch_verb(const Invocation& invocation);
Exit history_verb(const Invocation& invocation);
Exit break_verb(const Invocation& invocation);
Exit doctor_verb(const Invocation& invocation);
Exit config_verb(const Invocation& invocation);
Exit limit_verb(const Invocation& invocation);
Exit cache_verb(const Invocation& invocation);

}  // namespace dlock
