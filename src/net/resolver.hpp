// From the name of a host to its addresses.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "net/budget.hpp"
#include "net/endpoint.hpp"

namespace dlock::net {

// The addresses of `host`, IPv4 and IPv6, in the order in which to try them; at least
// one. `known` is one that it had before: it stands in when no name server answers in
// half of what is left of the budget, so that a lease can be renewed without them.
// Throws Failure: unreachable, interrupted.
asio::awaitable<Endpoints> resolve(asio::io_context& context, const std::string& host,
                                   std::uint16_t port,
                                   const std::optional<Endpoint>& known, Budget& budget);

}  // namespace dlock::net
