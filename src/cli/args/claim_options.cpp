#include "cli/args/claim_options.hpp"

#include "util/text.hpp"

namespace dlock {
namespace {

constexpr milliseconds shortest_ttl{500};
constexpr unsigned most_slots = 100'000;

// Whether the user seems to have used flock's -n (do not wait) in front of the name.
bool is_word_for_slots(const Settings& settings, const std::string& value) {
  return settings.find("slots")->second.source == Setting::Source::command_line &&
         !value.empty() && value.find_first_of("0123456789") == std::string::npos;
}

}  // namespace

void set_ttl(const Settings& settings, milliseconds& ttl) {
  with_setting(settings, "ttl", [&](const std::string& value) {
    ttl = parsed_duration(value);
    if (ttl < shortest_ttl) throw UsageError("must be at least 500ms");
  });
}

std::optional<milliseconds> chosen_wait(const Settings& settings) {
  std::optional<milliseconds> chosen;
  with_setting(settings, "wait", [&](const std::string& value) {
    const auto span = value == "forever" ? milliseconds::max() : parsed_duration(value);
    if (span.count() > 0) chosen = span;
  });
  return chosen;
}

void set_claim(const Settings& settings, const std::string& name, ClaimOptions& options) {
  options.name = parsed_name(name);
  options.wait = chosen_wait(settings);
  set_ttl(settings, options.ttl);
  with_setting(settings, "slots", [&](const std::string& value) {
    if (is_word_for_slots(settings, value)) {
      throw UsageError(
          "'" + printable(value, 60) +
          "' is not a number (-n means --slots; not waiting is the default)");
    }
    options.slots = parsed_number(value, 1, most_slots);
  });
  options.shared = flag(settings, "shared");
  if (options.shared && settings.count("slots") > 0) {
    const bool is_shared = gives_way(settings, "slots", "shared");
    if (!is_shared && !gives_way(settings, "shared", "slots"))
      throw excluded(settings, "shared", "slots");
    options.shared = is_shared;
    if (is_shared) options.slots = 1;
  }
  with_setting(settings, "label", [&](const std::string& value) {
    options.label = parsed_text(value, "label");
  });
}

}  // namespace dlock
