#include <algorithm>
#include <iterator>
#include <variant>

#include "cli/args/options.hpp"
#include "util/small_file.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

constexpr Choice<Color> colors[] = {
    {"auto", Color::automatic}, {"always", Color::always}, {"never", Color::never}};

constexpr Choice<bool> yes_or_no[] = {{"true", true}, {"false", false}};

// Far more than any setup has.
constexpr unsigned most_replicas = 15;

// The largest number of servers in a quorum, minus those needed for a grant.
constexpr unsigned most_strength = 4;

// A name that a certificate can contain.
std::string parsed_tls_name(const std::string& text) {
  const bool is_name = !text.empty() && text.size() <= longest_text &&
                       std::all_of(text.begin(), text.end(), [](char c) {
                         return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                                c == '_' || c == ':';
                       });
  if (!is_name) {
    throw UsageError("'" + printable(text, 60) + "' is not a host name or an address");
  }
  return text;
}

net::TlsOptions tls_options(const Settings& settings) {
  net::TlsOptions tls;
  tls.ca = file_name(settings, "tls-ca");
  tls.certificate = file_name(settings, "tls-cert");
  tls.key = file_name(settings, "tls-key");
  with_setting(settings, "tls-name",
               [&](const std::string& value) { tls.name = parsed_tls_name(value); });
  tls.insecure = flag(settings, "tls-insecure");
  const auto key_password_file = file_name(settings, "tls-key-password-file");
  if (!key_password_file.empty()) {
    tls.key_password = [key_password_file] { return password_in(key_password_file); };
  }
  if (tls.certificate.empty() != tls.key.empty()) {
    throw UsageError(
        "--tls-cert and --tls-key must be set together",
        is_from_file(settings, "tls-cert") || is_from_file(settings, "tls-key"));
  }
  return tls;
}

std::optional<std::string> user_from(const Settings& settings, std::string_view name) {
  std::optional<std::string> user;
  with_setting(settings, name, [&](const std::string& value) {
    if (value.empty()) throw UsageError("missing user name");
    if (!is_printable_utf8(value)) throw UsageError("not printable UTF-8");
    user = value;
  });
  return user;
}

// The password is taken from the first of these: a file named on the command line or in
// the environment, the variable, a file named in the configuration, the URL.
void take_password(const Settings& settings, const std::string& name,
                   std::optional<std::string>& password, std::string& password_file) {
  const auto file = file_name(settings, name + "-file");
  const auto variable = settings.find(name);
  if (!file.empty() &&
      (variable == settings.end() || !is_from_file(settings, name + "-file"))) {
    password_file = file;
  } else if (variable != settings.end()) {
    password = variable->second.value;
  }
}

Replicas parsed_replicas(const std::string& text) {
  if (text == "all") return {.all = true};
  try {
    return {.count = parsed_number(text, 0, most_replicas)};
  } catch (const UsageError& error) {
    throw UsageError(std::string(error.what()) + ", or all");
  }
}

// Evaluated for every store, so that a mistake is found at once.
Credentials credentials_from(const Settings& settings) {
  Credentials credentials;
  credentials.user = user_from(settings, "user");
  take_password(settings, "password", credentials.password, credentials.password_file);
  credentials.tls = tls_options(settings);
  credentials.sentinel_user = user_from(settings, "sentinel-user");
  take_password(settings, "sentinel-password", credentials.sentinel_password,
                credentials.sentinel_password_file);
  choice(settings, "sentinel-tls", yes_or_no, credentials.sentinel_tls);
  with_setting(settings, "replicas", [&](const std::string& value) {
    credentials.replicas = parsed_replicas(value);
  });
  with_setting(settings, "min-strength", [&](const std::string& value) {
    credentials.terms.least_strength = parsed_number(value, 0, most_strength);
  });
  with_setting(settings, "max-ttl", [&](const std::string& value) {
    credentials.terms.max_ttl = parsed_duration(value);
  });
  with_setting(settings, "address-map", [&](const std::string& value) {
    try {
      credentials.addresses = AddressMap::parsed(value);
    } catch (const Failure& failure) {
      throw UsageError(failure.what());
    }
  });
  return credentials;
}

// The options that only some stores have a use for.
struct StoreOption {
  std::string_view beginning;  // of the names of the options
  bool (*has_use)(const StoreUrl& store);
  std::string_view stores;
};
constexpr StoreOption store_options[] = {
    {"replicas", [](const StoreUrl& store) { return store.kind->features.replicas; },
     "redis+sentinel:// and redis+cluster://"},
    {"min-strength", [](const StoreUrl& store) { return store.kind->features.votes; },
     "redis+quorum://"},
    {"max-ttl", [](const StoreUrl& store) { return store.kind->features.votes; },
     "redis+quorum://"},
    {"sentinel-", [](const StoreUrl& store) { return store.kind->features.sentinels; },
     "redis+sentinel://"},
    {"tls-", [](const StoreUrl& store) { return store.uses_tls(); },
     "stores over TLS (rediss://, rediss+..., etcds://)"},
};

}  // namespace

void refuse_useless_options(const Settings& settings, const StoreUrl& store) {
  const bool connects = store.kind->form.place == UrlForm::Place::servers;
  for (const auto& [name, setting] : settings) {
    if (setting.source != Setting::Source::command_line) continue;
    const auto* option =
        std::find_if(std::begin(store_options), std::end(store_options),
                     [&](const auto& one) { return name.starts_with(one.beginning); });
    if (option == std::end(store_options) || option->has_use(store)) continue;
    // Without a connection, settings of connections are ignored like a login.
    if (option->beginning.ends_with('-') && !connects) continue;
    throw Failure(Failure::Kind::unsupported,
                  "--" + name + ": not on this kind of store, only on " +
                      std::string(option->stores));
  }
}

CommonOptions common_options(const Settings& settings) {
  CommonOptions options;
  with_setting(settings, "store", [&](const std::string& value) {
    options.store = parsed_store_url(value);
  });
  options.store.set(credentials_from(settings));
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

std::vector<std::string> exposed_secrets(const CommonOptions& common,
                                         const Settings& settings) {
  std::vector<std::string> warnings;
  if (!leases_expire(common.store)) return warnings;  // not on a server: none is used
  for (const auto* name :
       {"password-file", "sentinel-password-file", "tls-key", "tls-key-password-file"}) {
    const auto file = file_name(settings, name);
    if (file.empty() || !is_given_to_everyone(file)) continue;
    warnings.push_back("warning: every user of this machine can read " + printable(file) +
                       " (--" + name + "): mount it with mode 0440 or 0400");
  }
  return warnings;
}

milliseconds store_timeout(const CommonOptions& common, std::optional<milliseconds> ttl) {
  constexpr milliseconds usual{2000};
  if (common.store_timeout) return *common.store_timeout;
  return ttl ? std::min(usual, *ttl / 10) : usual;
}

}  // namespace dlock
