// What error replies mean.
#pragma once

#include <optional>
#include <string>

#include "store/redis/reply.hpp"
#include "util/failure.hpp"

namespace dlock::redis {

// The Failure for an error reply: unreachable if it can pass by itself, rejected or
// misconfigured if an administrator has to act.
Failure failure_from(const Reply& error, const std::string& server);

// The command that the server says it does not know, because it is renamed or disabled,
// or because a proxy does not forward it; empty if the server names none, as for a
// command of a script. Nothing for other replies.
std::optional<std::string> unknown_command_in(const Reply& reply);

// Whether a script was refused because of a command in it, which the server does not
// name: it does not know that command, or the user may not call it.
bool hides_refused_command(const Reply& reply);

}  // namespace dlock::redis
