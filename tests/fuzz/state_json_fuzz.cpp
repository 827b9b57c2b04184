// States of locks in the rows of a database, to which others may have written.

#include "fuzz.hpp"
#include "record/states.hpp"

using namespace dlock;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = fuzz::text_of(data, size);
  if (const auto runs = record::runs_from_json(text)) {
    const auto again = record::runs_from_json(record::runs_json(*runs));
    require(again == runs, "runs that are read are what was written");
  }

  const auto state = record::state_from_json(text);
  if (!state) return 0;
  const auto written = record::state_json(*state);
  if (!written) return 0;
  const auto again = record::state_from_json(*written);
  require(again.has_value(), "what is written can be read");
  require(record::state_json(*again) == written, "what is read is what was written");
  return 0;
}
