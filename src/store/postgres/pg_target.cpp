#include "store/postgres/pg_target.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <utility>

#include "store/url_parts.hpp"
#include "util/small_file.hpp"
#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock::postgres {
namespace {

SslMode ssl_mode_of(const StoreUrl& url) {
  const auto mode = parameter_of(url, "sslmode");
  if (!url.tls || mode == "disable") return SslMode::disable;
  if (mode.starts_with("verify")) return SslMode::verify;
  if (parameter_of(url, "sslrootcert") == "system") return SslMode::verify;
  if (mode == "require") return SslMode::require;
  return mode.empty() && is_verified_by_options(url) ? SslMode::verify : SslMode::prefer;
}

// dlock's own options precede the parameters.
void set_tls(PgTarget& target, const StoreUrl& url) {
  target.ssl = ssl_mode_of(url);
  target.negotiates_tls = parameter_of(url, "sslnegotiation") != "direct";
  const auto binding = parameter_of(url, "channel_binding");
  target.channel_binding = binding == "disable"   ? ChannelBinding::disable
                           : binding == "require" ? ChannelBinding::require
                                                  : ChannelBinding::prefer;
  if (!url.tls) return;
  target.tls = *url.tls;
  const auto ca = parameter_of(url, "sslrootcert");
  if (target.tls.ca.empty() && ca != "system") target.tls.ca = ca;
  if (!target.tls.certificate.empty()) return;
  target.tls.certificate = parameter_of(url, "sslcert");
  if (target.tls.certificate.empty()) return;  // a key alone is not used
  target.tls.key = parameter_of(url, "sslkey");
  if (target.tls.key.empty()) {
    throw bad_url(
        "sslcert needs its key: name it with sslkey, or put it into "
        "~/.postgresql/postgresql.key");
  }
}

Listening listening_of(const StoreUrl& url) {
  const auto word = parameter_of(url, "listen");
  return word == "on"    ? Listening::on
         : word == "off" ? Listening::off
                         : Listening::automatic;
}

std::string password_file_of(const StoreUrl& url, const PgSurroundings& surroundings) {
  auto named = parameter_of(url, "passfile");
  if (!named.empty()) return named;
  const auto usual = surroundings.home + "/.pgpass";
  return !surroundings.home.empty() && surroundings.is_there(usual) ? usual : "";
}

std::string text_of_pgpass(const std::string& file) {
  constexpr std::size_t longest = 1u << 20;
  FileKind kind{"password file " + printable(file, 200), longest, Use::credential};
  kind.may_be_pipe = false;
  kind.is_secret = true;
  return small_file(file, kind).text;
}

// Why the file is not used; empty if it is. The rule is that of --password-file, and not
// the stricter one of psql: platforms hand out secrets that a group can read. With
// PGPASSFILE=/dev/null there is none.
std::string fault_of_pgpass(const std::string& file) {
  if (file.empty() || file == "/dev/null") return "";
  try {
    text_of_pgpass(file);
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

std::optional<std::string> password_in_pgpass(const std::string& file,
                                              const PgPassEntry& wanted) {
  // As psql does, go without one that is no file.
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return password_for(wanted, text_of_pgpass(file));
}

// The next field of a line, without its backslashes; `line` loses it and the colon.
std::string next_field(std::string_view& line, bool is_last) {
  std::string field;
  std::size_t at = 0;
  for (; at < line.size() && (is_last || line[at] != ':'); ++at) {
    if (line[at] == '\\' && at + 1 < line.size()) ++at;
    field += line[at];
  }
  line.remove_prefix(std::min(at + 1, line.size()));
  return field;
}

}  // namespace

PgSurroundings own_surroundings() {
  PgSurroundings own;
  own.variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  own.is_there = [](const std::string& path) {
    return ::access(path.c_str(), F_OK) == 0;
  };
  own.user = own_user();
  own.home = own.variable("HOME");
  if (own.home.empty()) own.home = home_directory(::geteuid());
  const std::unique_ptr<char, decltype(&std::free)> here(::getcwd(nullptr, 0),
                                                         &std::free);
  if (here) own.directory = here.get();
  return own;
}

std::string PgTarget::shown() const {
  return path.empty() ? ServerAddress{host, port}.shown() : printable(path, 200);
}

std::vector<PgTarget> targets_of(const StoreUrl& url, milliseconds timeout,
                                 const PgSurroundings& surroundings) {
  const auto complete = completed(url, surroundings);
  PgTarget target;
  target.user = complete.login.user;
  target.database = complete.database_name;
  target.application_name = parameter_of(complete, "application_name");
  target.options = parameter_of(complete, "options");
  if (const auto schema = parameter_of(complete, "dlock_schema"); !schema.empty()) {
    target.schema = schema;
  }
  target.listening = listening_of(complete);
  target.timeout = timeout;
  set_tls(target, complete);

  const auto addresses = addresses_of(complete);
  const auto pgpass = password_file_of(complete, surroundings);
  if (!complete.login.has_password()) target.why_no_password = fault_of_pgpass(pgpass);
  std::vector<PgTarget> targets;
  for (std::size_t i = 0; i < complete.servers.size(); ++i) {
    const auto& server = complete.servers[i];
    auto& one = targets.emplace_back(target);
    one.port = server.port;
    if (server.is_directory()) {
      one.path = server.host + "/.s.PGSQL." + std::to_string(server.port);
    } else {
      one.host = addresses.empty() ? server.host : addresses.at(i).host;
      if (one.tls.name.empty() && !addresses.empty()) one.tls.name = server.host;
    }
    one.password_command = complete.login.password_command;
    if (!complete.login.password_file.empty()) {
      one.password = [file = complete.login.password_file] { return password_in(file); };
    } else if (complete.login.has_password()) {
      one.password = [password = complete.login.password] { return password; };
    } else if (!pgpass.empty() && target.why_no_password.empty()) {
      const PgPassEntry wanted{server.host, server.port, target.database, target.user};
      one.password = [pgpass, wanted] { return password_in_pgpass(pgpass, wanted); };
    }
  }
  return targets;
}

std::vector<OutsideSetting> outside_settings(const StoreUrl& url) {
  const auto surroundings = own_surroundings();
  std::vector<OutsideSetting> found;
  const auto complete = completed(url, surroundings, &found);
  if (const auto limit = connect_timeout(url)) {
    const bool is_in_url = !parameter_of(url, "connect_timeout").empty();
    found.push_back({"store-timeout", std::to_string(limit->count() / 1000) + "s",
                     is_in_url ? "" : "PGCONNECT_TIMEOUT"});
  }
  const auto file = password_file_of(complete, surroundings);
  if (complete.login.has_password() || file.empty()) return found;
  if (auto fault = fault_of_pgpass(file); !fault.empty()) {
    found.push_back({"password", "", std::move(fault), false});
    return found;
  }
  const auto& server = complete.servers.front();
  try {
    const PgPassEntry wanted{server.host, server.port, complete.database_name,
                             complete.login.user};
    if (password_in_pgpass(file, wanted)) {
      found.push_back({"password", "***", file, false});
    }
  } catch (const Failure& failure) {
    found.push_back({"password", "", failure.what(), false});
  }
  return found;
}

std::optional<std::string> password_for(const PgPassEntry& wanted,
                                        std::string_view content) {
  const bool is_usual = std::ranges::any_of(
      usual_directories, [&](const char* directory) { return wanted.host == directory; });
  const std::string fields[] = {is_usual ? "localhost" : wanted.host,
                                std::to_string(wanted.port), wanted.database,
                                wanted.user};
  for (auto line : split(content, '\n')) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with('#')) continue;
    const bool matches = std::ranges::all_of(fields, [&](const auto& field) {
      const bool is_any = line.starts_with("*:");
      auto given = next_field(line, false);
      if (&field == std::begin(fields)) given = normalized_host(std::move(given));
      return is_any || given == field;
    });
    if (!matches) continue;
    auto password = next_field(line, true);
    if (password.empty()) return std::nullopt;
    return password;
  }
  return std::nullopt;
}

}  // namespace dlock::postgres
