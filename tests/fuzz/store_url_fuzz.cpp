// Store URLs.

#include <algorithm>

#include "fuzz.hpp"
#include "store/open.hpp"
#include "store/redis/address.hpp"
#include "util/failure.hpp"

using namespace dlock;
using fuzz::require;

namespace {

// A login without a colon is the user if the password is set elsewhere, as it is for
// whoever uses a URL that is shown.
template <typename Plan>
Plan with_password_elsewhere(const std::string& url) {
  auto store = parsed_store_url(url);
  Credentials credentials;
  credentials.password_file = "/file";
  set_credentials(store, credentials);
  return std::get<Plan>(store);
}

void require_target(const redis::Target& target) {
  require(target.host.empty() != target.path.empty(), "a server has one place");
  require(target.path.empty() || target.path.front() == '/', "a path is absolute");
  require(target.path.find('\0') == std::string::npos, "a path ends where it ends");
  require(target.port != 0, "a port can be connected to");
  require(!target.password || !target.password->empty(), "a password is one");

  const auto url = redis::url_of(target);
  require(is_printable_utf8(url), "a URL is printable");
  const auto again = with_password_elsewhere<redis::Plan>(url).target;
  require(again.host == target.host && again.port == target.port &&
              again.path == target.path && again.user == target.user &&
              again.tls.has_value() == target.tls.has_value() &&
              again.database == target.database,
          "a URL that is shown leads to the same server");
}

void require_servers(const std::vector<redis::Target>& servers) {
  require(!servers.empty() && servers.size() <= 32, "a list of servers has bounds");
  for (const auto& server : servers) {
    require(!server.host.empty() && server.path.empty(), "a server has one place");
    require(server.port != 0, "a port can be connected to");
  }
}

bool are_same(const std::vector<redis::Target>& one,
              const std::vector<redis::Target>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const auto& a, const auto& b) {
                      return a.host == b.host && a.port == b.port && a.user == b.user &&
                             a.tls.has_value() == b.tls.has_value();
                    });
}

template <typename Plan>
Plan again_from(const Plan& plan) {
  const auto url = plan.url();
  require(is_printable_utf8(url), "a URL is printable");
  const auto again = with_password_elsewhere<Plan>(url);
  require(again.url() == url, "a URL that is shown stays as it is");
  return again;
}

void require_sentinels(const redis_sentinel::Plan& plan) {
  require_servers(plan.sentinels);
  require(!plan.master.empty() && plan.master.size() <= 255, "a name has bounds");
  for (const auto& sentinel : plan.sentinels) {
    require(sentinel.user.empty() && !sentinel.password,
            "sentinels are not told the login of the servers");
  }
  const auto again = again_from(plan);
  require(!again.server.password, "a URL that is shown has no password");
  require(are_same(again.sentinels, plan.sentinels) && again.master == plan.master &&
              again.server.user == plan.server.user &&
              again.server.database == plan.server.database,
          "a URL that is shown leads to the same sentinels");
}

void require_cluster(const redis_cluster::Plan& plan) {
  require_servers(plan.seeds);
  const auto again = again_from(plan);
  require(!again.seeds.front().password, "a URL that is shown has no password");
  require(are_same(again.seeds, plan.seeds),
          "a URL that is shown leads to the same servers");
}

void require_quorum(const redis_quorum::Plan& plan) {
  require_servers(plan.servers);
  require(plan.servers.size() >= 3 && plan.servers.size() <= 9, "a quorum has bounds");
  const auto again = again_from(plan);
  require(!again.servers.front().password, "a URL that is shown has no password");
  require(are_same(again.servers, plan.servers),
          "a URL that is shown leads to the same servers");
}

void require_etcd(const etcd::Plan& plan) {
  const auto& members = plan.access.members;
  require(!members.empty() && members.size() <= 32, "a list of servers has bounds");
  for (const auto& member : members) {
    require(!member.host.empty() && member.port != 0, "a server has one place");
  }
  const auto again = again_from(plan).access;
  require(!again.password, "a URL that is shown has no password");
  // What may be a password is not shown.
  const auto user = plan.access.is_user_alone ? "" : plan.access.user;
  require(again.members == members && again.user == user &&
              again.tls.has_value() == plan.access.tls.has_value(),
          "a URL that is shown leads to the same members");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string url(fuzz::text_of(data, size));
  try {
    const auto parsed = parsed_store_url(url);
    if (const auto* server = std::get_if<redis::Plan>(&parsed)) {
      require_target(server->target);
    }
    if (const auto* plan = std::get_if<redis_sentinel::Plan>(&parsed)) {
      require_sentinels(*plan);
    }
    if (const auto* plan = std::get_if<redis_cluster::Plan>(&parsed)) {
      require_cluster(*plan);
    }
    if (const auto* plan = std::get_if<redis_quorum::Plan>(&parsed)) {
      require_quorum(*plan);
    }
    if (const auto* plan = std::get_if<etcd::Plan>(&parsed)) require_etcd(*plan);
    if (const auto* local = std::get_if<local::Plan>(&parsed)) {
      const auto& path = local->path;
      require(path.empty() || path.front() == '/', "a path is absolute");
      require(path.find('\0') == std::string::npos, "a path ends where it ends");
      const auto again = parsed_store_url("local:" + path);
      require(std::get<local::Plan>(again).path == path,
              "a normalized path stays as it is");
    }
  } catch (const Failure& failure) {
    require(failure.kind() == Failure::Kind::misconfigured, "a bad URL is a bad setting");
    fuzz::require_message(failure);
  }
  return 0;
}
