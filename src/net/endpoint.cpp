#include "net/endpoint.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <charconv>
#include <cstring>

#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock::net {
namespace {

template <typename Specific>
Endpoint endpoint_of(const Specific& specific) {
  static_assert(sizeof specific <= sizeof(sockaddr_storage));
  Endpoint endpoint;
  std::memcpy(&endpoint.storage, &specific, sizeof specific);
  endpoint.size = sizeof specific;
  return endpoint;
}

// The interface that a link-local address belongs to, by its name or number; 0 if there
// is none.
std::uint32_t scope_of(const std::string& zone) {
  std::uint32_t number = 0;
  const auto* end = zone.data() + zone.size();
  if (std::from_chars(zone.data(), end, number).ptr == end) return number;
  return ::if_nametoindex(zone.c_str());
}

}  // namespace

Endpoint endpoint_of_path(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw Failure(
        Failure::Kind::misconfigured,
        "the path of a socket can have at most 107 bytes: " + printable(path, 200));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return endpoint_of(address);
}

std::optional<Endpoint> endpoint_of_literal(const std::string& host, std::uint16_t port) {
  sockaddr_in v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    return endpoint_of(v4);
  }
  sockaddr_in6 v6{};
  const auto percent = host.find('%');
  if (::inet_pton(AF_INET6, host.substr(0, percent).c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    if (percent != std::string::npos) {
      v6.sin6_scope_id = scope_of(host.substr(percent + 1));
    }
    return endpoint_of(v6);
  }
  return std::nullopt;
}

}  // namespace dlock::net
