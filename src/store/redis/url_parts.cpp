#include "store/redis/url_parts.hpp"

#include <utility>

namespace dlock::redis {
namespace {

constexpr unsigned most_databases = 0x7FFFFFFF;  // the server's type is int

Target target_of(ServerAddress server) {
  Target target;
  target.host = std::move(server.host);
  target.port = server.port;
  return target;
}

}  // namespace

unsigned database_from(std::string_view text) {
  return dlock::number_from(text, 0, most_databases, "the database");
}

void take_login(std::string_view text, Target& target) {
  auto login = login_from(text);
  target.is_login_alone = !login.has_colon;
  if (target.is_login_alone) {
    target.password = std::move(login.user);
  } else {
    target.user = std::move(login.user);
    target.password = std::move(login.password);
  }
}

Target target_at(std::string_view text, std::uint16_t port_if_none) {
  return target_of(server_from(text, port_if_none));
}

std::vector<Target> targets_from(std::string_view list, std::uint16_t port_if_none,
                                 const std::string& what) {
  std::vector<Target> targets;
  for (auto& server : servers_from(list, port_if_none, what)) {
    targets.push_back(target_of(std::move(server)));
  }
  return targets;
}

std::string target_text(const Target& target, std::uint16_t port_if_none) {
  const ServerAddress server{target.host, target.port};
  return server_text(server, port_if_none);
}

std::string targets_text(const std::vector<Target>& targets, std::uint16_t port_if_none) {
  std::string text;
  for (const auto& target : targets) {
    text += (text.empty() ? "" : ",") + target_text(target, port_if_none);
  }
  return text;
}

}  // namespace dlock::redis
