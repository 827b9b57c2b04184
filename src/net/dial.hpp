// From endpoints to a connected socket.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "net/budget.hpp"
#include "net/endpoint.hpp"
#include "util/fd.hpp"

namespace dlock::net {

// Connects to whichever of `endpoints` answers first. They are tried in their order, the
// next one as soon as one has failed or a quarter of a second has passed, so that a dead
// one costs no more than that. `used` becomes the one that it was. Throws Failure like
// Connection::open(), with the last reason when there are several.
asio::awaitable<Fd> dial(asio::io_context& context, const Endpoints& endpoints,
                         Budget& budget, Endpoint& used);

}  // namespace dlock::net
