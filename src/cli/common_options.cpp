#include <algorithm>

#include "cli/options.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

constexpr Choice<Color> colors[] = {
    {"auto", Color::automatic}, {"always", Color::always}, {"never", Color::never}};

net::TlsOptions tls_options(const Settings& settings) {
  net::TlsOptions tls;
  tls.ca = file_name(settings, "tls-ca");
  tls.certificate = file_name(settings, "tls-cert");
  tls.key = file_name(settings, "tls-key");
  tls.insecure = flag(settings, "tls-insecure");
  if (tls.certificate.empty() != tls.key.empty()) {
    throw UsageError(
        "--tls-cert and --tls-key go together",
        is_from_file(settings, "tls-cert") || is_from_file(settings, "tls-key"));
  }
  return tls;
}

// Also for a store that has no use for them, so that a mistake is found at once. A
// password comes from one place: a file that the command line or the environment names,
// the variable, a file that the configuration names, the URL.
Credentials credentials_from(const Settings& settings) {
  Credentials credentials;
  with_setting(settings, "user", [&](const std::string& value) {
    if (value.empty()) throw UsageError("a user's name is missing");
    if (!is_printable_utf8(value)) throw UsageError("not a name of printable UTF-8");
    credentials.user = value;
  });
  const auto file = file_name(settings, "password-file");
  const auto variable = settings.find("password");
  if (!file.empty() &&
      (variable == settings.end() || !is_from_file(settings, "password-file"))) {
    credentials.password_file = file;
  } else if (variable != settings.end()) {
    credentials.password = variable->second.value;
  }
  credentials.tls = tls_options(settings);
  return credentials;
}

}  // namespace

CommonOptions common_options(const Settings& settings) {
  CommonOptions options;
  with_setting(settings, "store", [&](const std::string& value) {
    options.store = parsed_store_url(value);
  });
  set_credentials(options.store, credentials_from(settings));
  with_setting(settings, "namespace", [&](const std::string& value) {
    options.name_space = parsed_name(value);
  });
  with_setting(settings, "store-timeout", [&](const std::string& value) {
    options.store_timeout = parsed_duration(value);
    if (options.store_timeout->count() == 0) throw UsageError("cannot be zero");
  });
  choice(settings, "color", colors, options.color);
  options.json = flag(settings, "json");
  options.quiet = flag(settings, "quiet");
  options.verbose = flag(settings, "verbose");
  if (options.quiet && options.verbose) {
    options.quiet = !gives_way(settings, "quiet", "verbose");
    options.verbose = !gives_way(settings, "verbose", "quiet");
  }
  return options;
}

milliseconds store_timeout(const CommonOptions& common, std::optional<milliseconds> ttl) {
  constexpr milliseconds usual{2000};
  if (common.store_timeout) return *common.store_timeout;
  return ttl ? std::min(usual, *ttl / 10) : usual;
}

}  // namespace dlock
