// Asks a server what there is to know for locks. It changes nothing there.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <string>

#include "lock/wakeup.hpp"
#include "store/redis/health.hpp"
#include "store/redis/reply.hpp"
#include "store/redis/target.hpp"

namespace dlock::redis {

// Each question is answered within `timeout`, and so are all those that measure round
// trips together. What goes wrong is a fact as well, but for Failure (exhausted).
asio::awaitable<Facts> facts_of(asio::io_context& context, const Target& target,
                                const std::string& name_space, milliseconds timeout,
                                Wakeup& wakeup);

// What an error says is missing: the right to a command, or to a key.
enum class Denial { none, command, keys };
Denial denial_of(const Reply& reply);

// What a server says that lets a script use only keys which it has declared; nothing for
// any other. `declared` is what it says to the same script with a key of that kind.
std::optional<std::string> undeclared_refused(const Reply& declared,
                                              const Reply& undeclared);

// "name:value" in lines, as INFO has it.
Fields fields_of_info(std::string_view text);

}  // namespace dlock::redis
