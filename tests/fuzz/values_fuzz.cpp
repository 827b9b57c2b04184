// Durations, numbers and names from the command line, a variable or a file.

#include "cli/args/options.hpp"
#include "fuzz.hpp"

using namespace dlock;
using fuzz::require;

namespace {

void try_duration(std::string_view text) {
  try {
    const auto duration = parsed_duration(text);
    constexpr milliseconds century(std::chrono::hours(24 * 366 * 100));
    require(duration.count() >= 0 && duration <= century, "a duration is in its bounds");
    const auto again = parsed_duration(std::to_string(duration.count()) + "ms");
    require(again == duration, "milliseconds mean themselves");
  } catch (const UsageError& error) {
    fuzz::require_message(error);
  }
}

void try_number(std::string_view text) {
  try {
    const auto number = parsed_number(text, 1, 100);
    require(number >= 1 && number <= 100, "a number is in its bounds");
  } catch (const UsageError& error) {
    fuzz::require_message(error);
  }
}

void try_name(const std::string& text) {
  try {
    const auto name = parsed_name(text);
    require(name == text, "a name is taken as it is");
    require(!name.empty() && name.size() <= 255 && is_printable_utf8(name),
            "a name is of the kind that is accepted");
  } catch (const UsageError& error) {
    fuzz::require_message(error);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = fuzz::text_of(data, size);
  try_duration(text);
  try_number(text);
  try_name(std::string(text));
  return 0;
}
