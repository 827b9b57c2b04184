#include "cli/args/nesting.hpp"

#include <algorithm>
#include <iterator>

#include "util/text.hpp"

namespace dlock {
namespace {

std::size_t count_of(const char* const* entries) {
  std::size_t count = 0;
  while (entries[count] != nullptr) ++count;
  return count;
}

}  // namespace

std::vector<Fence> outer_fences_of(std::string_view held, const std::string& name) {
  std::vector<Fence> fences;
  const auto wanted = percent_encoded(name);
  while (!held.empty()) {
    const auto entry = held.substr(0, held.find(' '));
    held.remove_prefix(std::min(entry.size() + 1, held.size()));
    const auto equals = entry.rfind('=');
    if (equals == std::string_view::npos || entry.substr(0, equals) != wanted) continue;
    const auto number = number_in<std::uint64_t>(entry.substr(equals + 1));
    if (number) fences.push_back(Fence{*number});
  }
  return fences;
}

std::string with_grant(const std::string& held, const std::string& name, Fence fence) {
  return held + (held.empty() ? "" : " ") + percent_encoded(name) + "=" +
         std::to_string(fence.number);
}

bool is_secret(std::string_view entry) {
  return entry.starts_with("DLOCK_PASSWORD=") || entry.starts_with("DLOCK_TOKEN=") ||
         entry.starts_with("DLOCK_SENTINEL_PASSWORD=");
}

std::vector<std::string> command_environment(const char* const* inherited,
                                             const CommandSettings& settings) {
  std::vector<std::string> own{
      "DLOCK_NAME=" + settings.name,
      "DLOCK_STORE=" + settings.store,
      "DLOCK_NAMESPACE=" + settings.name_space,
  };
  if (const auto& grant = settings.grant) {
    own.push_back("DLOCK_FENCE=" + std::to_string(grant->fence.number));
    own.push_back("DLOCK_SLOT=" + std::to_string(grant->slot));
    own.push_back("DLOCK_HELD=" + with_grant(settings.held, settings.name, grant->fence));
  }
  if (!settings.run_id.empty()) own.push_back("DLOCK_RUN_ID=" + settings.run_id);
  if (!settings.config.empty()) own.push_back("DLOCK_CONFIG=" + settings.config);
  own.insert(own.end(), settings.passed_on.begin(), settings.passed_on.end());

  std::vector<std::string> environment;
  environment.reserve(count_of(inherited) + own.size());
  for (; *inherited != nullptr; ++inherited) {
    const std::string_view entry(*inherited);
    if (!entry.starts_with("DLOCK_")) {  // as most are
      environment.emplace_back(entry);
      continue;
    }
    const auto name = entry.substr(0, entry.find('=') + 1);
    const bool replaced =
        std::any_of(own.begin(), own.end(),
                    [&](const std::string& set) { return set.starts_with(name); });
    // A run without a lock must not look like the holder of an outer one.
    const bool outer =
        !settings.grant && (name == "DLOCK_FENCE=" || name == "DLOCK_SLOT=");
    if (is_secret(entry) || outer || (replaced && !name.empty())) continue;
    environment.emplace_back(entry);
  }
  std::move(own.begin(), own.end(), std::back_inserter(environment));
  return environment;
}

}  // namespace dlock
