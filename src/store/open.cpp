#include "store/open.hpp"

#include <algorithm>
#include <string_view>

#include "store/local/examine.hpp"
#include "store/local/local_store.hpp"
#include "store/none/none_store.hpp"
#include "store/redis/address.hpp"
#include "store/redis/examine.hpp"
#include "store/redis/redis_store.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

constexpr std::string_view redis_schemes[] = {"redis", "rediss", "redis+unix"};
constexpr std::string_view not_built_yet[] = {
    "redis+sentinel", "redis+cluster", "redis+quorum", "rediss+sentinel",
    "rediss+cluster", "rediss+quorum", "etcd",         "etcds"};
constexpr std::string_view built[] = {
    "local:", "local:/dir", "none:", "redis://", "rediss://", "redis+unix:"};

template <typename Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// The names of all kinds that there are, for messages.
std::string all_kinds() {
  std::string text;
  for (const auto name : built) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

// The URL for a message: without what may be a password, also where that stands in a
// place where it should not.
std::string shown(const std::string& url) {
  const auto query = std::min(url.find_first_of("?#"), url.size());
  if (const auto at = url.rfind('@'); at != std::string::npos) {
    return "..." + (query < at ? "" : url.substr(at, query - at));
  }
  // A user:password without a host looks like a host with a port.
  const auto scheme = url.find(':');
  const auto host = url.find("://[") == scheme ? url.find(']') : scheme + 1;
  const auto end =
      scheme == std::string::npos ? query : std::min(query, url.find(':', host));
  return end < url.size() ? url.substr(0, end) + "..." : url;
}

Failure bad(const std::string& url, const std::string& why) {
  return Failure(Failure::Kind::misconfigured,
                 "store '" + printable(shown(url), 200) + "': " + why);
}

// Without doubled or trailing slashes, so that one directory has one name.
std::string tidy(const std::string& path) {
  std::string out;
  for (const char c : path) {
    if (c != '/' || out.empty() || out.back() != '/') out += c;
  }
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

}  // namespace

StoreUrl parsed_store_url(const std::string& url) {
  const auto colon = url.find(':');
  if (colon == std::string::npos) {
    throw bad(url, "not a store URL (" + all_kinds() + ")");
  }
  const auto scheme = std::string_view(url).substr(0, colon);
  const auto rest = url.substr(colon + 1);
  if (scheme == "local") {
    if (!rest.empty() && (rest.front() != '/' || rest.find('\0') != std::string::npos)) {
      throw bad(url, "the directory has to be an absolute path");
    }
    return {StoreUrl::Kind::local, tidy(rest), {}};
  }
  if (scheme == "none") {
    if (!rest.empty()) throw bad(url, "nothing may follow none:");
    return {StoreUrl::Kind::none, "", {}};
  }
  if (is_one_of(redis_schemes, scheme)) {
    try {
      return {StoreUrl::Kind::redis, "", redis::target_from(scheme, rest)};
    } catch (const Failure& failure) {
      throw bad(url, failure.what());
    }
  }
  if (is_one_of(not_built_yet, scheme)) {
    throw bad(url, "this version of dlock has no " + std::string(scheme) +
                       ": stores yet (" + all_kinds() + ")");
  }
  throw bad(url, "unknown kind of store (" + all_kinds() + ")");
}

bool leases_run_out(const StoreUrl& url) { return url.kind == StoreUrl::Kind::redis; }

asio::awaitable<Examination> examine_store(const StoreUrl& url,
                                           const std::string& name_space,
                                           milliseconds timeout,
                                           asio::io_context& context, Wakeup& wakeup) {
  Examination examination;
  if (url.kind == StoreUrl::Kind::none) {
    examination.findings.push_back({"store", Finding::Level::info,
                                    "none: excludes nobody, so nothing can be wrong",
                                    ""});
  } else if (url.kind == StoreUrl::Kind::redis) {
    const auto facts =
        co_await redis::facts_of(context, url.target, name_space, timeout, wakeup);
    examination.findings = redis::findings_of(facts);
    examination.round_trip = redis::median_of(facts.round_trips);
    if (examination.round_trip) {
      examination.smallest_ttl = redis::smallest_ttl_for(
          redis::needed_budget(*examination.round_trip, facts.trips_to_renew));
    }
  } else {
    examination.findings = local::findings_of(local::facts_of(url.path, timeout));
  }
  co_return examination;
}

std::unique_ptr<Store> open_store(const StoreUrl& url, milliseconds timeout,
                                  asio::io_context& context) {
  switch (url.kind) {
    case StoreUrl::Kind::none: return std::make_unique<none::NoneStore>();
    case StoreUrl::Kind::redis:
      return std::make_unique<redis::RedisStore>(
          context,
          redis::RedisStore::Options{url.target, redis::url_of(url.target), timeout});
    case StoreUrl::Kind::local: break;
  }
  return std::make_unique<local::LocalStore>(
      context, local::LocalStore::Options{url.path, timeout});
}

}  // namespace dlock
