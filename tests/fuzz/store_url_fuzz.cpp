// Store URLs.

#include "fuzz.hpp"
#include "lock/errors.hpp"
#include "store/open.hpp"

using namespace dlock;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string url(fuzz::text_of(data, size));
  try {
    const auto parsed = parsed_store_url(url);
    if (parsed.kind == StoreUrl::Kind::none) {
      require(parsed.path.empty(), "none: has no path");
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
