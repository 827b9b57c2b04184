// Connects a socket to one of several endpoints.
#pragma once

#include <sys/socket.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "net/budget.hpp"
#include "util/fd.hpp"

namespace dlock::net {

struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size = 0;

  // The same bytes in the type that the BSD interface takes.
  const sockaddr* generic() const {
    return static_cast<const sockaddr*>(static_cast<const void*>(&storage));
  }
  bool is_unix() const { return storage.ss_family == AF_UNIX; }
};

using Endpoints = std::vector<Endpoint>;

// The endpoint of a unix socket. Throws Failure (misconfigured) if the path is too long.
Endpoint endpoint_of_path(const std::string& path);

// The endpoint of a literal address: "127.0.0.1", "::1" or "fe80::1%eth0". Nothing if
// `host` is a name.
std::optional<Endpoint> endpoint_of_literal(const std::string& host, std::uint16_t port);

// The inverse, without a port; empty for that of a unix socket.
std::string literal_of(const Endpoint& endpoint);

// Connects to the first of `endpoints` that answers. They are tried in order, the next
// one as soon as one has failed or a quarter of a second has passed (less if the budget
// is small or there are many), so that an unreachable one costs no more than that. Sets
// `used` to the endpoint of the connection. Throws Failure like open_stream(), and
// Refusal where the server did not take the connection; if several failed, with the last
// reason.
asio::awaitable<Fd> dial(asio::io_context& context, const Endpoints& endpoints,
                         Budget& budget, Endpoint& used);

// Connects to `host`, a name or a literal address, in the same way; the addresses of a
// name are tried as they become known. `last_used` is the address of an earlier
// connection, if there was one: it is tried if no name server answers within half of the
// budget, so that a lease can be renewed without name servers. Sets it to the endpoint of
// the connection. Throws Failure like dial(), even if the host has no address.
asio::awaitable<Fd> dial(asio::io_context& context, const std::string& host,
                         std::uint16_t port, Budget& budget,
                         std::optional<Endpoint>& last_used);

}  // namespace dlock::net
