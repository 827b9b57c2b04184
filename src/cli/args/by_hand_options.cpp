#include "cli/args/claim_options.hpp"
#include "cli/args/nesting.hpp"
#include "util/small_file.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// Whoever reads the file can release the lock, but a token is short-lived, and its file
// was made by the shell of the caller with the usual permissions.
std::string token_in(const std::string& path) {
  constexpr std::size_t longest = 64u << 10;
  const FileKind kind{"token file " + printable(path, 200), longest, Use::credential};
  auto text = small_file(path, kind).text;
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

Token token(const Settings& settings) {
  const auto given = settings.find("token");
  const auto file = settings.find("token-file");
  std::optional<Token> token;
  require_one_token(settings);
  // The environment has the lowest precedence.
  if (file != settings.end() &&
      (given == settings.end() || given->second.source >= file->second.source)) {
    with_setting(settings, "token-file", [&](const std::string& value) {
      token = parsed_token(token_in(value));
    });
  } else {
    with_setting(settings, "token",
                 [&](const std::string& value) { token = parsed_token(value); });
  }
  if (!token) {
    throw UsageError("missing token (use --token, --token-file or DLOCK_TOKEN)");
  }
  return *token;
}

AcquireOptions::Form form(const Settings& settings) {
  using Form = AcquireOptions::Form;
  const bool exports = flag(settings, "export");
  if (!flag(settings, "json")) return exports ? Form::variables : Form::token;
  if (!exports || gives_way(settings, "export", "json")) return Form::json;
  if (!gives_way(settings, "json", "export")) throw excluded(settings, "export", "json");
  return Form::variables;
}

}  // namespace

AcquireOptions acquire_options(const Settings& settings, const std::string& name) {
  AcquireOptions options;
  set_claim(settings, name, options);
  options.form = form(settings);
  with_setting(settings, "for-pid", [&](const std::string& value) {
    options.for_pid = static_cast<pid_t>(parsed_number(value, 1, INT32_MAX));
  });
  return options;
}

void require_one_token(const Settings& settings) {
  const auto token = settings.find("token");
  const auto file = settings.find("token-file");
  const bool are_both = token != settings.end() && file != settings.end();
  if (are_both && token->second.source == file->second.source) {
    throw excluded(settings, "token", "token-file");
  }
}

LeaseOptions lease_options(const Settings& settings, const std::string& name) {
  LeaseOptions options;
  options.name = parsed_name(name);
  options.token = token(settings);
  if (settings.count("ttl") > 0) set_ttl(settings, options.ttl.emplace());
  return options;
}

CheckOptions check_options(const Settings& settings,
                           const std::optional<std::string>& name,
                           const RunAbove& above) {
  CheckOptions options;
  if (!name && above.name.empty()) {
    throw UsageError("missing lock name, and DLOCK_NAME is not set");
  }
  options.name = parsed_name(name.value_or(above.name));
  std::optional<Fence> fence;
  with_setting(settings, "fence",
               [&](const std::string& value) { fence = parsed_fence(value); });
  // DLOCK_FENCE is the fence of the innermost run; another lock may be held by an outer
  // one.
  const auto given = settings.find("fence");
  const bool is_given =
      given != settings.end() && given->second.source == Setting::Source::command_line;
  if (!is_given && options.name != above.name) {
    const auto held = outer_fences_of(above.held, options.name);
    if (!held.empty()) fence = held.back();
  }
  // A run without the lock has a name but no fence, and no grant has fence 0.
  if (!fence && options.name == above.name) fence = Fence{0};
  if (!fence) throw UsageError("missing fence (use --fence or DLOCK_FENCE)");
  options.fence = *fence;
  duration(settings, "min-validity", options.min_validity);
  return options;
}

}  // namespace dlock
