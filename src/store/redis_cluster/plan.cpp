#include "store/redis_cluster/plan.hpp"

#include "store/redis/plan.hpp"
#include "store/redis/url_parts.hpp"

namespace dlock::redis_cluster {

Plan Plan::parsed(std::string_view scheme, const std::string& rest) {
  refuse_controls(rest);
  const auto parts = url_parts(rest, "[user[:password]@]host[:port],host[:port]...");
  redis::Target login;
  if (parts.login) redis::take_login(*parts.login, login);
  if (scheme == "rediss+cluster") login.tls.emplace();
  Plan plan;
  plan.seeds = redis::targets_from(parts.servers, redis::usual_port, "server");
  for (auto& seed : plan.seeds) {
    seed.user = login.user;
    seed.password = login.password;
    seed.is_login_alone = login.is_login_alone;
    seed.tls = login.tls;
  }
  if (!path_behind(parts, "nothing may follow the servers").empty()) {
    throw bad_url("a cluster has only database 0: nothing may follow the servers");
  }
  return plan;
}

void Plan::set(const Credentials& credentials) {
  for (auto& seed : seeds) redis::set_login(seed, credentials);
  replicas = credentials.replicas;
  addresses = credentials.addresses;
}

bool Plan::is_insecure() const {
  return seeds.front().tls && seeds.front().tls->insecure;
}

std::string Plan::url() const {
  const auto& login = seeds.front();
  std::string url = login.tls ? "rediss+cluster://" : "redis+cluster://";
  if (!login.user.empty()) url += encoded(login.user) + "@";
  return url + redis::targets_text(seeds, redis::usual_port);
}

}  // namespace dlock::redis_cluster
