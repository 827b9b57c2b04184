#include "store/redis_sentinel/plan.hpp"

#include <algorithm>

#include "store/redis/plan.hpp"
#include "store/redis/url_parts.hpp"
#include "util/text.hpp"

namespace dlock::redis_sentinel {
namespace {

constexpr std::size_t longest_master = 255;

std::string master_from(std::string_view text) {
  if (text.empty()) {
    throw bad_url(
        "the master name is missing: add /NAME after the last sentinel, as in `sentinel "
        "monitor`");
  }
  auto master = decoded(text, "the master name");
  if (master.size() > longest_master || !is_printable_utf8(master)) {
    throw bad_url("the master name must be 1 to " + std::to_string(longest_master) +
                  " bytes of printable UTF-8");
  }
  return master;
}

}  // namespace

Plan Plan::parsed(std::string_view scheme, const std::string& rest) {
  refuse_controls(rest);
  const auto parts =
      url_parts(rest, "[user[:password]@]host[:port],host[:port].../MASTER[/db]");
  Plan plan;
  if (parts.login) redis::take_login(*parts.login, plan.server);
  plan.sentinels =
      redis::targets_from(parts.servers, redis::usual_sentinel_port, "sentinel");
  const auto behind = path_behind(parts, "only /MASTER and /db may follow the sentinels");
  const auto slash = std::min(behind.find('/'), behind.size());
  plan.master = master_from(behind.substr(0, slash));
  const auto database = behind.substr(slash);
  if (database.size() > 1) {
    plan.server.database = redis::database_from(database.substr(1));
  }
  for (auto& sentinel : plan.sentinels) {
    sentinel.password_options = "--sentinel-password-file or DLOCK_SENTINEL_PASSWORD";
  }
  if (scheme == "rediss+sentinel") {
    plan.server.tls.emplace();
    for (auto& sentinel : plan.sentinels) sentinel.tls.emplace();
  }
  return plan;
}

void Plan::set(const Credentials& credentials) {
  redis::set_login(server, credentials);
  Credentials of_sentinels;
  of_sentinels.user = credentials.sentinel_user;
  of_sentinels.password = credentials.sentinel_password;
  of_sentinels.password_file = credentials.sentinel_password_file;
  of_sentinels.tls = credentials.tls;
  for (auto& sentinel : sentinels) {
    if (!credentials.sentinel_tls) sentinel.tls.reset();
    redis::set_login(sentinel, of_sentinels);
    if (sentinel.tls) sentinel.tls->name.clear();  // it is named by its host
  }
  replicas = credentials.replicas;
  addresses = credentials.addresses;
}

std::string Plan::url() const {
  std::string url = server.tls ? "rediss+sentinel://" : "redis+sentinel://";
  if (!server.user.empty()) url += encoded(server.user) + "@";
  url += redis::targets_text(sentinels, redis::usual_sentinel_port);
  url += "/" + encoded(master);
  if (server.database != 0) url += "/" + std::to_string(server.database);
  return url;
}

}  // namespace dlock::redis_sentinel
