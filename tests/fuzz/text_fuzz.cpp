// Untrusted text: escaped for printing, encoded, parsed as a time, and parsed as
// DLOCK_HELD.

#include <algorithm>
#include <cstring>

#include "cli/args/options.hpp"
#include "cli/run/verb_store.hpp"
#include "fuzz.hpp"
#include "util/text.hpp"

using namespace dlock;
using fuzz::require;

namespace {

void try_printable(std::string_view text) {
  const auto shown = printable(text, text.size() * 4 + 1);
  require(is_printable_utf8(shown), "what is shown is printable");
  require(is_printable_utf8(printable(text, 10)), "even when it is cut");
  require(printable(text, 10).size() <= 10 + 12 + 3, "it is cut where it is to be");
  const bool plain = is_printable_utf8(text) && text.find('\\') == std::string_view::npos;
  require(!plain || shown == text, "plain text stays as it is");
  const auto command = printable_command(fuzz::parts_of(text));
  require(is_printable_utf8(command), "a command is printable");
}

void try_percent(std::string_view text) {
  const auto encoded = percent_encoded(text);
  require(encoded.find_first_of(" ={}") == std::string::npos, "no byte is special");
  require(percent_decoded(encoded) == text, "what was encoded can be decoded");
  const auto decoded = percent_decoded(text);
  require(!decoded || percent_encoded(*decoded) == text, "there is one encoding only");
}

void try_moment(std::string_view text) {
  const auto moment = from_rfc3339(text);
  if (!moment) return;
  require(from_rfc3339(rfc3339(*moment)) == moment,
          "a moment is the same when read back");
}

void try_nesting(std::string_view text) {
  const auto parts = fuzz::parts_of(text);
  const auto& name = parts.front();
  const auto& held = parts.back();
  const auto before = outer_fences_of(held, name);
  const auto now = outer_fences_of(with_grant(held, name, Fence{42}), name);
  require(now.size() == before.size() + 1 && now.back() == Fence{42},
          "a grant is added to those above");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = fuzz::text_of(data, size);
  try_printable(text);
  try_percent(text);
  try_moment(text);
  try_nesting(text);
  std::int64_t span = 0;
  std::memcpy(&span, data, std::min(size, sizeof span));
  require(is_printable_utf8(for_people(std::chrono::nanoseconds(span))),
          "a duration can be shown");
  return 0;
}
