#include "store/redis/target.hpp"

#include "net/endpoint.hpp"
#include "store/url_parts.hpp"
#include "util/text.hpp"

namespace dlock::redis {

Target Target::at(const std::string& announced, std::uint16_t at_port) const {
  Target other = *this;
  other.host = announced;
  other.port = at_port;
  if (other.tls && !net::endpoint_of_literal(announced, at_port)) other.tls->name.clear();
  return other;
}

Failure Target::with_origin(const Failure& failure) const {
  const bool is_announced =
      !announced_by.empty() && failure.kind() == Failure::Kind::unreachable;
  if (!is_announced) return failure;
  return Failure(failure.kind(),
                 failure.what() + (", the address that " + std::string(announced_by) +
                                   " announce (--address-map if it differs here)"));
}

std::string Target::shown() const {
  if (!path.empty()) return printable(path, 200);
  const ServerAddress server{host, port};
  return server.shown();
}

}  // namespace dlock::redis
