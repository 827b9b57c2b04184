// Collects the facts about a server that matter to locks. It changes nothing there.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <string>

#include "loop/wakeup.hpp"
#include "store/redis/health.hpp"
#include "store/redis/permissions.hpp"
#include "store/redis/reply.hpp"
#include "store/redis/target.hpp"

namespace dlock::redis {

// `more` are the permissions that this kind of store needs besides those of locks. Each
// request takes at most `timeout`, and so do all measurements of round trips
// together. A failure is recorded as a fact, except Failure (exhausted), which is thrown.
asio::awaitable<Facts> facts_of(asio::io_context& context, const Target& target,
                                const std::string& name_space, milliseconds timeout,
                                Wakeup& wakeup, std::span<const Permission> more = {});

// The same for several servers, all examined at once; the facts are in their order.
asio::awaitable<std::vector<Facts>> facts_of_all(asio::io_context& context,
                                                 std::vector<Target> targets,
                                                 std::string name_space,
                                                 milliseconds timeout, Wakeup& wakeup,
                                                 std::span<const Permission> more = {});

// What an error reports as missing: permission for a command, or for a key.
enum class Denial { none, command, keys };
Denial denial_of(const Reply& reply);

// The error of a server that does not allow a script to use undeclared keys; nothing for
// other servers. `declared` is the reply to the same script with a declared key.
std::optional<std::string> undeclared_refused(const Reply& declared,
                                              const Reply& undeclared);

// Parses the lines "name:value" of INFO.
Fields fields_of_info(std::string_view text);

}  // namespace dlock::redis
