#include "store/redis_quorum/plan.hpp"

#include "store/redis/plan.hpp"
#include "store/redis/url_parts.hpp"

namespace dlock::redis_quorum {

Plan Plan::parsed(std::string_view scheme, const std::string& rest) {
  refuse_controls(rest);
  const auto parts =
      url_parts(rest, "[user[:password]@]host[:port],host[:port],host[:port]...[/db]");
  redis::Target login;
  if (parts.login) redis::take_login(*parts.login, login);
  if (scheme == "rediss+quorum") login.tls.emplace();
  const auto path = path_behind(parts, "only /db may follow the servers");
  if (!path.empty()) login.database = redis::database_from(path);
  Plan plan;
  plan.servers = redis::targets_from(parts.servers, redis::usual_port, "server");
  const auto count = plan.servers.size();
  if (count < least_servers || count > most_servers) {
    throw bad_url("a quorum needs " + std::to_string(least_servers) + " to " +
                  std::to_string(most_servers) + " servers, not " +
                  std::to_string(count));
  }
  for (auto& server : plan.servers) {
    server.user = login.user;
    server.password = login.password;
    server.is_login_alone = login.is_login_alone;
    server.tls = login.tls;
    server.database = login.database;
  }
  return plan;
}

void Plan::set(const Credentials& credentials) {
  for (auto& server : servers) redis::set_login(server, credentials);
  terms = credentials.terms;
}

bool Plan::is_insecure() const {
  const auto& tls = servers.front().tls;
  return tls && tls->insecure;
}

std::string Plan::url() const {
  const auto& login = servers.front();
  std::string url = login.tls ? "rediss+quorum://" : "redis+quorum://";
  if (!login.user.empty()) url += encoded(login.user) + "@";
  url += redis::targets_text(servers, redis::usual_port);
  if (login.database != 0) url += "/" + std::to_string(login.database);
  return url;
}

}  // namespace dlock::redis_quorum
