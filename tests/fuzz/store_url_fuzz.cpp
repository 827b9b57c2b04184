// Store URLs.

#include "fuzz.hpp"
#include "util/failure.hpp"
#include "store/open.hpp"
#include "store/redis/address.hpp"

using namespace dlock;
using fuzz::require;

namespace {

void require_target(const redis::Target& target) {
  require(target.host.empty() != target.path.empty(), "a server has one place");
  require(target.path.empty() || target.path.front() == '/', "a path is absolute");
  require(target.path.find('\0') == std::string::npos, "a path ends where it ends");
  require(target.port != 0, "a port can be connected to");
  require(!target.password || !target.password->empty(), "a password is one");

  const auto url = redis::url_of(target);
  require(is_printable_utf8(url), "a URL is printable");
  const auto again = parsed_store_url(url).target;
  require(!again.password, "a URL that is shown has no password");
  require(again.host == target.host && again.port == target.port &&
              again.path == target.path && again.user == target.user &&
              again.tls.has_value() == target.tls.has_value() &&
              again.database == target.database,
          "a URL that is shown leads to the same server");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string url(fuzz::text_of(data, size));
  try {
    const auto parsed = parsed_store_url(url);
    if (parsed.kind == StoreUrl::Kind::none) {
      require(parsed.path.empty(), "none: has no path");
      return 0;
    }
    if (parsed.kind == StoreUrl::Kind::redis) {
      require_target(parsed.target);
      return 0;
    }
    require(parsed.path.empty() || parsed.path.front() == '/', "a path is absolute");
    require(parsed.path.find('\0') == std::string::npos, "a path ends where it ends");
    require(parsed_store_url("local:" + parsed.path).path == parsed.path,
            "a tidy path stays as it is");
  } catch (const Failure& failure) {
    require(failure.kind() == Failure::Kind::misconfigured, "a bad URL is a bad setting");
    fuzz::require_message(failure);
  }
  return 0;
}
