#include "cli/args/options.hpp"

namespace dlock {

CacheOptions cache_options(const Settings& settings, const std::string& key,
                           std::vector<std::string> command) {
  CacheOptions options;
  const std::string prefix = "cache:";
  if (key.size() + prefix.size() > longest_text) {
    throw UsageError("a key can have at most " +
                     std::to_string(longest_text - prefix.size()) +
                     " bytes; this one has " + std::to_string(key.size()));
  }
  options.name = prefix + parsed_name(key);
  options.command = std::move(command);
  options.forget = flag(settings, "forget");
  options.show = flag(settings, "show");
  if (options.forget && options.show) {
    throw excluded(settings, "forget", "show");
  }
  const bool runs = !options.forget && !options.show;
  if (runs == options.command.empty()) {
    throw UsageError(options.forget ? "--forget takes no command"
                     : options.show ? "--show takes no command"
                                    : "missing command (usage: dlock cache "
                                      "[OPTIONS] KEY [--] COMMAND [ARG...])",
                     is_from_file(settings, options.show ? "show" : "forget"));
  }
  with_setting(settings, "ttl", [&](const std::string& value) {
    options.lifetime.ttl = parsed_duration(value);
    if (options.lifetime.ttl.count() == 0) throw UsageError("cannot be zero");
  });
  duration(settings, "stale", options.lifetime.stale);
  with_setting(settings, "max-size",
               [&](const std::string& value) { options.max_size = parsed_size(value); });
  with_setting(settings, "wait", [&](const std::string& value) {
    options.wait = value == "forever" ? milliseconds::max() : parsed_duration(value);
    options.waits_for_store = options.wait.count() > 0;
  });
  with_setting(settings, "conflict-exit-code", [&](const std::string& value) {
    options.conflict_exit_code = static_cast<int>(parsed_number(value, 0, 255));
  });
  return options;
}

}  // namespace dlock
