// Connects a socket to one of several endpoints.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "net/budget.hpp"
#include "net/endpoint.hpp"
#include "util/fd.hpp"

namespace dlock::net {

// Connects to the first of `endpoints` that answers. They are tried in order, the next
// one as soon as one has failed or a quarter of a second has passed, so that an
// unreachable one costs no more than that. Sets `used` to the endpoint of the connection.
// Throws Failure like Connection::open(), and Refusal where the server did not take the
// connection; if several failed, with the last reason.
asio::awaitable<Fd> dial(asio::io_context& context, const Endpoints& endpoints,
                         Budget& budget, Endpoint& used);

}  // namespace dlock::net
