// Store URLs.

#include "fuzz.hpp"
#include "store/open.hpp"
#include "store/redis/address.hpp"
#include "util/failure.hpp"

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
  const auto again = std::get<redis::Plan>(parsed_store_url(url)).target;
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
    if (const auto* server = std::get_if<redis::Plan>(&parsed)) {
      require_target(server->target);
    }
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
