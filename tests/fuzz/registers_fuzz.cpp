// The file of fences, which a crash may have damaged in any way.

#include "fuzz.hpp"
#include "store/local/text_files.hpp"

using namespace dlock;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = fuzz::text_of(data, size);
  if (const auto fences = local::registers_from(text)) {
    require(local::registers_from(local::registers_text(*fences)) == fences,
            "what was read can be written");
  }
  return 0;
}
