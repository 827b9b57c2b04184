// Connects a socket to one of several endpoints.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "net/budget.hpp"
#include "net/endpoint.hpp"
#include "util/fd.hpp"

namespace dlock::net {

// Connects to the first of `endpoints` that answers. They are tried in order, the next
// one as soon as one has failed or a quarter of a second has passed (less if the budget
// is small or there are many), so that an unreachable one costs no more than that. Sets
// `used` to the endpoint of the connection. Throws Failure like Connection::open(), and
// Refusal where the server did not take the connection; if several failed, with the last
// reason.
asio::awaitable<Fd> dial(asio::io_context& context, const Endpoints& endpoints,
                         Budget& budget, Endpoint& used);

// Connects to `host`, a name or a literal address, in the same way; the addresses of a
// name are tried as they become known. `last_used` is the address of an earlier
// connection, if there was one: it is tried if no name server answers within half of the
// budget, so that a lease can be renewed without name servers. Sets it to the endpoint of
// the connection. Throws Failure like dial(), also if the host has no address.
asio::awaitable<Fd> dial(asio::io_context& context, const std::string& host,
                         std::uint16_t port, Budget& budget,
                         std::optional<Endpoint>& last_used);

}  // namespace dlock::net
