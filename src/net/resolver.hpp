// Resolves host names.
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
// one. `known` is an earlier address of the host: it is used if no name server answers
// within half of the remaining budget, so that a lease can be renewed without name
// servers. Throws Failure: unreachable, interrupted.
asio::awaitable<Endpoints> resolve(asio::io_context& context, const std::string& host,
                                   std::uint16_t port,
                                   const std::optional<Endpoint>& known, Budget& budget);

}  // namespace dlock::net
