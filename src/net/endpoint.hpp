// The address that a socket connects to.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace dlock::net
