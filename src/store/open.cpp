#include "store/open.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>

#include "store/url_advice.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// A kind of store. To add one, add a folder with a Plan, an alternative of StoreUrl, and
// a row here at the same index.
struct StoreKind {
  std::string_view schemes[3];
  std::string_view shown;  // for messages
  StoreUrl (*parse)(std::string_view scheme, const std::string& rest);
  StoreFeatures features;
};

template <typename Plan>
StoreUrl parse(std::string_view scheme, const std::string& rest) {
  return Plan::parsed(scheme, rest);
}

constexpr StoreKind kinds[] = {
    {{"local"}, "local:, local:/dir", parse<local::Plan>, {}},
    {{"none"}, "none:", parse<none::Plan>, {}},
    {{"redis", "rediss", "redis+unix"},
     "redis://, rediss://, redis+unix:",
     parse<redis::Plan>,
     {.leases_expire = true}},
    {{"redis+sentinel", "rediss+sentinel"},
     "redis+sentinel://",
     parse<redis_sentinel::Plan>,
     {.leases_expire = true}},
    {{"redis+cluster", "rediss+cluster"},
     "redis+cluster://",
     parse<redis_cluster::Plan>,
     {.leases_expire = true}},
    {{"redis+quorum", "rediss+quorum"},
     "redis+quorum://",
     parse<redis_quorum::Plan>,
     {.leases_expire = true, .values = false, .rates = false}},
    {{"etcd", "etcds"},
     "etcd://",
     parse<etcd::Plan>,
     {.leases_expire = true, .values = false, .rates = false}},
};
static_assert(std::size(kinds) == std::variant_size_v<StoreUrl>);

template <typename Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// All kinds, for messages.
std::string all_kinds() {
  std::string text;
  for (const auto& kind : kinds) {
    text += (text.empty() ? "" : ", ") + std::string(kind.shown);
  }
  return text;
}

Failure bad(const std::string& url, const std::string& why) {
  return Failure(Failure::Kind::misconfigured,
                 "store '" + printable(shown_url(url), 200) + "': " + why);
}

}  // namespace

StoreUrl parsed_store_url(const std::string& url) {
  const auto colon = url.find(':');
  if (colon == std::string::npos) {
    const auto why = "not a store URL (" + all_kinds() + ")";
    const bool is_path =
        url.starts_with('/') && url.find_first_of("@?#=") == std::string::npos;
    throw bad(url,
              is_path ? why + ": did you mean local:" + printable(url, 200) + "?" : why);
  }
  const auto scheme = canonical_scheme(std::string_view(url).substr(0, colon));
  const auto rest = url.substr(colon + 1);
  for (const auto& kind : kinds) {
    if (scheme.empty() || !is_one_of(kind.schemes, scheme)) continue;
    try {
      return kind.parse(scheme, rest);
    } catch (const Failure& failure) {
      throw bad(url, failure.what());
    }
  }
  throw bad(url, advice_on(scheme, rest, all_kinds()));
}

void set_credentials(StoreUrl& url, const Credentials& credentials) {
  std::visit(
      [&](auto& plan) {
        if constexpr (requires { plan.set(credentials); }) plan.set(credentials);
      },
      url);
}

bool is_insecure(const StoreUrl& url) {
  return std::visit(
      [](const auto& plan) {
        if constexpr (requires { plan.is_insecure(); }) {
          return plan.is_insecure();
        } else {
          return false;
        }
      },
      url);
}

bool uses_tls(const StoreUrl& url) {
  // --tls-insecure has an effect there.
  auto tried = url;
  Credentials insecure;
  insecure.tls.insecure = true;
  set_credentials(tried, insecure);
  return is_insecure(tried);
}

StoreFeatures features_of(const StoreUrl& url) { return kinds[url.index()].features; }

asio::awaitable<Examination> examine_store(const StoreUrl& url,
                                           const std::string& name_space,
                                           milliseconds timeout,
                                           asio::io_context& context, Wakeup& wakeup) {
  return std::visit(
      [&](const auto& plan) {
        return examine(plan, name_space, timeout, context, wakeup);
      },
      url);
}

std::unique_ptr<Store> open_store(const StoreUrl& url, milliseconds timeout,
                                  asio::io_context& context) {
  return std::visit([&](const auto& plan) { return open(plan, timeout, context); }, url);
}

}  // namespace dlock
