// A file of a cached value, which may have been damaged in any way.

#include "fuzz.hpp"
#include "store/local/local_values.hpp"

using namespace dlock;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  const auto head = local::value_head_from(text);
  const auto found = local::value_from(text, {"dlock", "cache:key"},
                                       head ? head->boot : "", Clock::time_point{});
  require(!found.value || head.has_value(), "only what has a first line is a value");
  require(!found.value || found.value->bytes.size() == head->size, "a value is whole");
  return 0;
}
