#include "store/open.hpp"

#include <string_view>

#include "store/etcd/etcd_store.hpp"
#include "store/local/local_store.hpp"
#include "store/postgres/pg_store.hpp"
#include "store/postgres/pg_target.hpp"
#include "store/postgres/pg_url.hpp"
#include "store/redis/redis_store.hpp"
#include "store/redis_cluster/cluster_route.hpp"
#include "store/redis_quorum/quorum_store.hpp"
#include "store/redis_sentinel/sentinel_route.hpp"
#include "store/url_advice.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

using Place = UrlForm::Place;

// To add a kind of store, add a folder with open() and examine(), and a row here.
constexpr StoreKind kinds[] = {
    {.scheme = "local",
     .shown = "local:, local:/dir",
     .form = {.place = Place::directory},
     .features = {},
     .open = local::open,
     .examine = local::examine},
    {.scheme = "none",
     .shown = "none:",
     .form = {.place = Place::nowhere},
     .features = {},
     .open = none::open,
     .examine = none::examine},
    {.scheme = "redis",
     .tls_scheme = "rediss",
     .socket_scheme = "redis+unix",
     .shown = "redis://, rediss://, redis+unix:",
     .form = {.shape = "host[:port][/db]",
              .port = 6379,
              .most = 1,
              .path = "only /db or ?db=N may follow the host",
              .has_database = true},
     .features = {.leases_expire = true},
     .open = redis::open,
     .examine = redis::examine},
    {.scheme = "redis+sentinel",
     .tls_scheme = "rediss+sentinel",
     .shown = "redis+sentinel://",
     .form = {.shape = "host[:port],host[:port].../MASTER[/db]",
              .server = "sentinel",
              .port = 26379,
              .path = "only /MASTER and /db may follow the sentinels",
              .has_master = true,
              .has_database = true},
     .features = {.leases_expire = true, .replicas = true, .sentinels = true},
     .open = redis_sentinel::open,
     .examine = redis_sentinel::examine},
    {.scheme = "redis+cluster",
     .tls_scheme = "rediss+cluster",
     .shown = "redis+cluster://",
     .form = {.shape = "host[:port],host[:port]...",
              .port = 6379,
              .path = "nothing may follow the servers",
              .why_no_database = "a cluster has only database 0: "},
     .features = {.leases_expire = true, .replicas = true},
     .open = redis_cluster::open,
     .examine = redis_cluster::examine},
    {.scheme = "redis+quorum",
     .tls_scheme = "rediss+quorum",
     .shown = "redis+quorum://",
     .form = {.shape = "host[:port],host[:port],host[:port]...[/db]",
              .port = 6379,
              .least = 3,
              .most = 9,
              .path = "only /db may follow the servers",
              .has_database = true},
     .features = {.leases_expire = true, .values = false, .rates = false, .votes = true},
     .open = redis_quorum::open,
     .examine = redis_quorum::examine},
    {.scheme = "etcd",
     .tls_scheme = "etcds",
     .shown = "etcd://",
     .form = {.shape = "host[:port],host[:port]...",
              .port = 2379,
              .path = "nothing may follow the servers",
              .is_user_required = true},
     .features = {.leases_expire = true, .values = false, .rates = false},
     .open = etcd::open,
     .examine = etcd::examine},
    {.scheme = "postgres",
     .shown = "postgres://",
     .form = {.shape = "host[:port],host[:port].../database",
              .least = 0,
              .path = "only /database and ?parameters may follow the servers",
              .take_parameters = postgres::take_parameters},
     .features = {.leases_expire = true, .replicas = true},
     .open = postgres::open,
     .examine = postgres::examine,
     .outside = postgres::outside_settings,
     .schema = postgres::schema,
     .timeout = postgres::connect_timeout},
};

// All kinds, for messages.
std::string all_kinds() {
  std::string text;
  for (const auto& kind : kinds) {
    text += (text.empty() ? "" : ", ") + std::string(kind.shown);
  }
  return text;
}

Failure bad(const std::string& url, const std::string& why) {
  return Failure::misconfigured("store '" + printable(shown_url(url), 200) + "': " + why);
}

}  // namespace

StoreUrl parsed_store_url(const std::string& url) {
  const auto advice = advice_on_begin(url);
  if (!advice.empty()) throw bad(url, advice);
  const auto colon = url.find(':');
  if (colon == std::string::npos) throw bad(url, advice_on_text(url, all_kinds()));
  const auto scheme = canonical_scheme(std::string_view(url).substr(0, colon));
  const auto rest = url.substr(colon + 1);
  for (const auto& kind : kinds) {
    if (!kind.has_scheme(scheme)) continue;
    try {
      return StoreUrl::parsed(kind, scheme, rest);
    } catch (const Failure& failure) {
      throw bad(url, failure.what());
    }
  }
  throw bad(url, advice_on(scheme, rest, all_kinds()));
}

asio::awaitable<Examination> examine_store(const ExaminationOrder& order) {
  return order.url.kind->examine(order);
}

std::unique_ptr<Store> open_store(const StoreUrl& url, milliseconds timeout,
                                  asio::io_context& context) {
  return url.kind->open(url, timeout, context);
}

}  // namespace dlock
