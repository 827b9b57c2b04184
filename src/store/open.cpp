#include "store/open.hpp"

#include <algorithm>
#include <string_view>

#include "store/local/local_store.hpp"
#include "store/none/none_store.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

constexpr std::string_view not_built_yet[] = {"redis",
                                              "rediss",
                                              "redis+unix",
                                              "redis+sentinel",
                                              "redis+cluster",
                                              "redis+quorum",
                                              "rediss+sentinel",
                                              "rediss+cluster",
                                              "rediss+quorum",
                                              "etcd",
                                              "etcds"};

Failure bad(const std::string& url, const std::string& why) {
  // What stands before an @ may be a password.
  const auto at = url.rfind('@');
  const auto shown = at == std::string::npos ? url : "..." + url.substr(at);
  return Failure(Failure::Kind::misconfigured,
                 "store '" + printable(shown, 200) + "': " + why);
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
    throw bad(url, "not a store URL (local:, local:/dir, none:)");
  }
  const auto scheme = std::string_view(url).substr(0, colon);
  const auto rest = url.substr(colon + 1);
  if (scheme == "local") {
    if (!rest.empty() && (rest.front() != '/' || rest.find('\0') != std::string::npos)) {
      throw bad(url, "the directory has to be an absolute path");
    }
    return {StoreUrl::Kind::local, tidy(rest)};
  }
  if (scheme == "none") {
    if (!rest.empty()) throw bad(url, "nothing may follow none:");
    return {StoreUrl::Kind::none, ""};
  }
  if (std::find(std::begin(not_built_yet), std::end(not_built_yet), scheme) !=
      std::end(not_built_yet)) {
    throw bad(url, "this version of dlock has no " + std::string(scheme) +
                       ": stores yet (local:, local:/dir, none:)");
  }
  throw bad(url, "unknown kind of store (local:, local:/dir, none:)");
}

std::unique_ptr<Store> open_store(const StoreUrl& url, milliseconds timeout,
                                  asio::io_context& context) {
  switch (url.kind) {
    case StoreUrl::Kind::none: return std::make_unique<none::NoneStore>();
    case StoreUrl::Kind::local: break;
  }
  return std::make_unique<local::LocalStore>(
      context, local::LocalStore::Options{url.path, timeout});
}

}  // namespace dlock
