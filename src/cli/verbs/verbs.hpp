// The verbs, one function each: run the verb, and return how dlock ends. They throw
// UsageError for settings and operands that they refuse, and Failure.
#pragma once

#include <string>

#include "cli/args/app.hpp"
#include "cli/args/exit_status.hpp"
#include "lock/store.hpp"
#include "util/failure.hpp"
#include "util/json.hpp"
#include "util/text.hpp"

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

// list --live: a table of the locks, kept up to date until a signal arrives or the output
// is closed. Throws Failure if the first look at the store fails.
Exit list_live(const CommonOptions& common, const ListOptions& options);

// Returns what `work` returns. If it throws a Failure, throws one of the same kind whose
// message begins with `name`, in the form that Speaker uses for every other line.
template <typename Work>
auto about(const std::string& name, Work work) {
  try {
    return work();
  } catch (const Failure& failure) {
    throw Failure(failure.kind(), printable_name(name) + ": " + failure.what());
  }
}

// The time that is certainly left of a span that began at `start` or later.
milliseconds left_of(milliseconds span, Clock::time_point start);

// The number of free slots of `lock`, for JSON output. Null if the store does not report
// it: the verb has already succeeded by then.
asio::awaitable<Json> free_of(Store& store, const LockName& lock, Wakeup& wakeup);

}  // namespace dlock
