#include "cli/run/hidden_secrets.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "cli/run/verb_store.hpp"
#include "store/store_url.hpp"

namespace dlock {
namespace {

// Read by other programs as well, so commands get it.
constexpr std::string_view shared_secret = "PGPASSWORD=";

constexpr std::string_view store = "DLOCK_STORE=";

}  // namespace

void hide_secrets(char** environment) {
  for (char** variable = environment; *variable != nullptr; ++variable) {
    const std::string_view entry(*variable);
    const bool is_whole = is_secret(entry) || entry.starts_with(shared_secret);
    if (!is_whole && !entry.starts_with(store)) continue;
    auto* const shown = *variable;
    auto* const copy = ::strdup(shown);
    // Without memory, the run fails soon: what it would have lacked does not matter.
    *variable = copy == nullptr ? shown + entry.size() : copy;
    if (is_whole) std::fill(shown + entry.find('=') + 1, shown + entry.size(), 'x');
    if (!is_whole) hide_login(shown + store.size());
  }
}

}  // namespace dlock
