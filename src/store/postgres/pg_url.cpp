#include "store/postgres/pg_url.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <utility>

#include "net/dial.hpp"
#include "store/url_parts.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

using Parameters = std::map<std::string, std::string>;

constexpr std::size_t longest_identifier = 63;

struct Parameter {
  std::string_view name;
  const char* variable;  // of libpq, for what the URL leaves open; null: none
  // The values that it can have, also for messages; empty: any text.
  std::string_view words = {};
};

constexpr Parameter taken[] = {
    {"host", "PGHOST"},
    {"hostaddr", "PGHOSTADDR"},
    {"port", "PGPORT"},
    {"user", "PGUSER"},
    {"dbname", "PGDATABASE"},
    {"password", "PGPASSWORD"},
    {"passfile", "PGPASSFILE"},
    {"sslmode", "PGSSLMODE", "disable, allow, prefer, require, verify-ca, verify-full"},
    {"sslrootcert", "PGSSLROOTCERT"},
    {"sslcert", "PGSSLCERT"},
    {"sslkey", "PGSSLKEY"},
    {"sslnegotiation", "PGSSLNEGOTIATION", "postgres, direct"},
    {"channel_binding", "PGCHANNELBINDING", "disable, prefer, require"},
    {"target_session_attrs", "PGTARGETSESSIONATTRS", "any, read-write, primary"},
    {"options", "PGOPTIONS"},
    {"application_name", "PGAPPNAME"},
    {"connect_timeout",
     nullptr},  // see connect_timeout(): it is needed before the others
    {"dlock_schema", nullptr},
    {"listen", nullptr, "on, off"},
};

// What libpq can be asked for and dlock does not do, so that it must not be ignored.
struct Demand {
  std::string_view name;
  const char* variable;       // null: none
  std::string_view harmless;  // the values that ask for nothing
  std::string_view instead;   // what to write
};

constexpr std::string_view no_gssapi =
    "GSSAPI is not supported, use a password or a certificate";
constexpr std::string_view no_service =
    "write the host and the database of the service into the URL";
constexpr std::string_view unchecked = "dlock does not check it, leave it out";
constexpr std::string_view own_password = "use --password-file FILE";

constexpr Demand demands[] = {
    {"service", "PGSERVICE", "", no_service},
    {"servicefile", nullptr, "", no_service},
    {"require_auth", "PGREQUIREAUTH", "", unchecked},
    {"requirepeer", "PGREQUIREPEER", "", unchecked},
    {"requiressl", "PGREQUIRESSL", "0", "use sslmode=require"},
    {"sslcrl", "PGSSLCRL", "", unchecked},
    {"sslcrldir", "PGSSLCRLDIR", "", unchecked},
    {"sslcertmode", "PGSSLCERTMODE", "disable, allow", unchecked},
    {"sslpassword", nullptr, "", "use --tls-key-password-file FILE"},
    {"sslsni", "PGSSLSNI", "1", "the name of the server is always sent"},
    {"ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION", "TLSv1, TLSv1.1, TLSv1.2",
     unchecked},
    {"ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION", "TLSv1.3", unchecked},
    {"gssencmode", "PGGSSENCMODE", "disable, prefer", no_gssapi},
    {"gssdelegation", "PGGSSDELEGATION", "0", no_gssapi},
    {"gsslib", "PGGSSLIB", "gssapi", no_gssapi},
    {"krbsrvname", "PGKRBSRVNAME", "postgres", no_gssapi},
    {"scram_client_key", nullptr, "", own_password},
    {"scram_server_key", nullptr, "", own_password},
    {"replication", nullptr, "false, off, no, 0", "leave it out"},
};

// Of libpq, and without a meaning here: dlock has its own keepalives.
constexpr std::string_view ignored =
    "keepalives, keepalives_idle, keepalives_interval, keepalives_count, "
    "tcp_user_timeout, load_balance_hosts, client_encoding, sslcompression, "
    "fallback_application_name";

bool is_one_of(std::string_view words, const std::string& value) {
  return value.find_first_of(", ") == std::string::npos &&
         (", " + std::string(words) + ", ").find(", " + value + ", ") !=
             std::string::npos;
}

const Parameter* parameter_named(std::string_view name) {
  const auto* found =
      std::ranges::find_if(taken, [&](const auto& one) { return one.name == name; });
  return found == std::end(taken) ? nullptr : found;
}

Failure not_supported(std::string_view name, std::string_view instead) {
  return bad_url(std::string(name) + " is not supported: " + std::string(instead));
}

// Whether it is a parameter that asks for nothing here. Throws Failure if it asks for
// something.
bool asks_for_nothing(const std::string& name, const std::string& value) {
  const auto* demand =
      std::ranges::find_if(demands, [&](const Demand& one) { return one.name == name; });
  if (demand == std::end(demands)) return is_one_of(ignored, name);
  if (value.empty() || is_one_of(demand->harmless, value)) return true;
  throw not_supported("the parameter " + name, demand->instead);
}

// `ssl` of other clients as sslmode.
std::string ssl_mode_of_word(const std::string& value) {
  if (is_one_of("true, 1, on, yes", value)) return "require";
  return is_one_of("false, 0, off, no", value) ? "disable" : value;
}

void check_schema(const std::string& name) {
  const bool is_name =
      !name.empty() && name.size() <= longest_identifier && !name.starts_with("pg_") &&
      std::ranges::all_of(name, [](char c) { return is_alphanumeric(c) || c == '_'; });
  if (!is_name) {
    throw bad_url("dlock_schema must be 1 to " + std::to_string(longest_identifier) +
                  " letters, digits and _, and must not begin with pg_");
  }
}

// Throws Failure, for a URL or a variable, if it cannot have this value.
void check(const Parameter& parameter, const std::string& value) {
  const auto name = std::string(parameter.name);
  if (value.empty()) throw bad_url(name + " is empty");
  if (name == "dlock_schema") check_schema(value);
  if (name == "connect_timeout" && !number_in<int>(value)) {
    throw bad_url("connect_timeout must be a number of seconds");
  }
  if (parameter.words.empty() || is_one_of(parameter.words, value)) return;
  const bool wants_none = name == "sslmode" && value == "no-verify";
  throw bad_url(name + " must be one of " + std::string(parameter.words) +
                (name == "target_session_attrs" ? ": locks need the primary"
                 : wants_none ? ": for TLS with any certificate, write sslmode=require "
                                "and add --tls-insecure"
                              : ""));
}

// The inverse of what a URL has between commas.
std::string in_brackets(const std::string& host) {
  if (host.starts_with('/')) return encoded(host);
  const bool is_bare = host.find(':') != std::string::npos && !host.starts_with('[');
  return is_bare ? "[" + host + "]" : host;
}

std::vector<ServerAddress> servers_in(const std::string& list) {
  std::string servers;
  for (const auto host : split(list, ','))
    servers += in_brackets(std::string(host)) + ",";
  servers.pop_back();
  auto found = servers_from(servers, 0, "server", true);
  for (const auto& server : found) {
    if (server.port != 0) throw bad_url("a port belongs into the parameter port");
  }
  return found;
}

// 0 for an empty one.
std::vector<std::uint16_t> ports_in(const std::string& list) {
  std::vector<std::uint16_t> ports;
  for (const auto text : split(list, ',')) {
    const auto port = text.empty() ? 0 : number_from(text, 1, 65535, "the port");
    ports.push_back(static_cast<std::uint16_t>(port));
  }
  return ports;
}

// For all servers, or for each one.
void set_ports(std::vector<ServerAddress>& servers,
               const std::vector<std::uint16_t>& ports) {
  if (ports.size() != 1 && ports.size() != servers.size()) {
    throw bad_url("there must be one port, or as many as servers");
  }
  for (std::size_t i = 0; i < servers.size(); ++i) {
    const auto port = ports.size() == 1 ? ports.front() : ports[i];
    auto& known = servers[i].port;
    if (port == 0) continue;
    if (known != 0 && port != known) throw bad_url("a server has two ports");
    known = port;
  }
}

std::optional<std::string> taken_out(StoreUrl& url, const char* name) {
  const auto found = url.parameters.find(name);
  if (found == url.parameters.end()) return std::nullopt;
  auto value = std::move(found->second);
  url.parameters.erase(found);
  return value;
}

void place_servers(StoreUrl& url) {
  // As in psql, it takes the place of what is before the /: postgresql://localhost/db
  // ?host=/cloudsql/name is what some services say to write. The port stays.
  if (const auto hosts = taken_out(url, "host")) {
    std::vector<std::uint16_t> ports;
    for (const auto& server : std::exchange(url.servers, servers_in(*hosts))) {
      ports.push_back(server.port);
    }
    if (!ports.empty()) set_ports(url.servers, ports);
  }
  if (const auto found = url.parameters.find("hostaddr"); found != url.parameters.end()) {
    auto addresses = servers_in(found->second);
    for (const auto& address : addresses) {
      if (!net::endpoint_of_literal(address.host, usual_port)) {
        throw bad_url("hostaddr must be an address, not a name");
      }
    }
    if (url.servers.empty()) {
      url.servers = std::move(addresses);
      url.parameters.erase(found);
    } else if (addresses.size() != url.servers.size()) {
      throw bad_url("hostaddr must have as many addresses as there are servers");
    }
  }
  const auto ports = ports_in(parameter_of(url, "port"));
  if (url.servers.empty()) return;
  if (taken_out(url, "port")) set_ports(url.servers, ports);
}

// Moves what the URL has fields for from its parameters to there.
void place(StoreUrl& url) {
  const auto set = [](std::string& field, std::optional<std::string> value,
                      const char* what) {
    if (!value) return;
    if (!field.empty() && field != *value) {
      throw bad_url("two " + std::string(what) + " are named");
    }
    field = std::move(*value);
  };
  set(url.login.user, taken_out(url, "user"), "users");
  set(url.database_name, taken_out(url, "dbname"), "databases");
  if (auto password = taken_out(url, "password")) {
    if (url.login.password && url.login.password != password) {
      throw bad_url("two passwords are named");
    }
    url.login.password = std::move(password);
  }
  place_servers(url);
}

// The servers, those with an address in `hostaddr` by that.
std::vector<ServerAddress> reached_at(const StoreUrl& url) {
  auto servers = url.servers;
  const auto addresses = addresses_of(url);
  for (std::size_t i = 0; i < std::min(servers.size(), addresses.size()); ++i) {
    servers[i].host = addresses[i].host;
  }
  return servers;
}

bool uses_sockets_only(const StoreUrl& url) {
  return !url.servers.empty() && std::ranges::all_of(url.servers, [](const auto& server) {
    return server.is_directory();
  });
}

void settle_tls(StoreUrl& url) {
  const auto mode = parameter_of(url, "sslmode");
  if (parameter_of(url, "sslnegotiation") == "direct" &&
      ((mode.empty() && !is_verified_by_options(url)) || mode == "disable" ||
       mode == "allow" || mode == "prefer")) {
    throw bad_url("sslnegotiation=direct needs sslmode=require, or verify-full");
  }
  if (mode == "disable" || uses_sockets_only(url)) url.tls.reset();
}

// Whether neither the URL nor an option says anything about the parameter.
bool is_open(const StoreUrl& url, std::string_view name) {
  const auto no_port = [](const auto& server) { return server.port == 0; };
  if (name == "host" || name == "hostaddr") return url.servers.empty();
  if (name == "port") {
    return url.parameters.count("port") == 0 && std::ranges::all_of(url.servers, no_port);
  }
  if (name == "user") return url.login.user.empty();
  if (name == "password") return !url.login.has_password();
  if (name == "dbname") return url.database_name.empty();
  if (name == "sslmode" && is_verified_by_options(url)) return false;
  if (name == "sslrootcert" && url.tls && !url.tls->ca.empty()) return false;
  if (name == "sslcert" || name == "sslkey") {
    if (url.tls && !url.tls->certificate.empty()) return false;
  }
  return url.parameters.count(std::string(name)) == 0;
}

void take_variables(StoreUrl& url, const PgSurroundings& surroundings,
                    std::vector<OutsideSetting>* found) {
  const auto named = url;
  for (const auto& parameter : taken) {
    if (parameter.variable == nullptr || !is_open(named, parameter.name)) continue;
    const auto value = surroundings.variable(parameter.variable);
    if (value.empty()) continue;
    const auto name = std::string(parameter.name);
    // As in libpq; some set it to a file that is nowhere, so that none is used.
    if (name == "sslcert" && !surroundings.is_there(value)) continue;
    url.parameters[name] = value;
    try {
      check(parameter, value);
      auto alone = named;
      alone.parameters = {{name, value}};
      place(alone);
    } catch (const Failure& failure) {
      throw bad_url(std::string(parameter.variable) + ": " + failure.what());
    }
    if (found == nullptr) continue;
    found->push_back({name, name == "password" ? "***" : value, parameter.variable});
  }
}

// The directory that has the socket, or the first one.
std::string usual_directory(const PgSurroundings& surroundings, const std::string& port) {
  const auto socket = "/.s.PGSQL." + (port.empty() ? std::to_string(usual_port) : port);
  for (const auto* directory : usual_directories) {
    if (surroundings.is_there(directory + socket)) return directory;
  }
  return usual_directories[0];
}

// The files that psql uses without being told, if they are there; a certificate only with
// a key.
void add_usual_files(StoreUrl& url, const PgSurroundings& surroundings) {
  if (surroundings.home.empty() || !url.tls) return;
  const auto add = [&](const char* name, const std::string& file) {
    const auto path = surroundings.home + "/.postgresql/" + file;
    if (is_open(url, name) && surroundings.is_there(path)) url.parameters[name] = path;
  };
  add("sslrootcert", "root.crt");
  const bool is_named = url.parameters.count("sslcert") != 0;
  add("sslcert", "postgresql.crt");
  if (url.parameters.count("sslcert") != 0) add("sslkey", "postgresql.key");
  if (!is_named && url.parameters.count("sslkey") == 0) url.parameters.erase("sslcert");
}

void make_absolute(StoreUrl& url, const std::string& directory) {
  for (const auto* name : {"sslrootcert", "sslcert", "sslkey", "passfile"}) {
    const auto found = url.parameters.find(name);
    if (found == url.parameters.end() || found->second.starts_with('/')) continue;
    if (found->second != "system") found->second.insert(0, directory + "/");
  }
}

void refuse_unsupported(const PgSurroundings& surroundings) {
  for (const auto& demand : demands) {
    if (demand.variable == nullptr) continue;
    const auto value = surroundings.variable(demand.variable);
    if (value.empty() || is_one_of(demand.harmless, value)) continue;
    throw not_supported(demand.variable, demand.instead == unchecked
                                             ? "dlock does not check it, unset it"
                                             : demand.instead);
  }
}

}  // namespace

void take_parameters(StoreUrl& url, const Parameters& parameters) {
  for (const auto& [name, value] : parameters) {
    const bool is_word = name == "ssl";
    const auto* parameter = parameter_named(is_word ? "sslmode" : name);
    if (parameter != nullptr) {
      const auto meant = is_word ? ssl_mode_of_word(value) : value;
      const auto mode = parameters.find("sslmode");
      if (is_word && mode != parameters.end()) {
        if ((meant == "disable") != (mode->second == "disable")) {
          throw not_supported("the parameter ssl", "it contradicts sslmode");
        }
        continue;
      }
      check(*parameter, meant);
      url.parameters[std::string(parameter->name)] = meant;
    } else if (!asks_for_nothing(name, value)) {
      url.ignore(name);
    }
  }
  url.tls.emplace();
  place(url);
  settle_tls(url);
}

StoreUrl completed(StoreUrl url, const PgSurroundings& surroundings,
                   std::vector<OutsideSetting>* found) {
  refuse_unsupported(surroundings);
  take_variables(url, surroundings, found);
  place(url);
  if (url.servers.empty()) {
    url.servers.push_back({usual_directory(surroundings, parameter_of(url, "port")), 0});
    place_servers(url);
  }
  for (auto& server : url.servers) {
    if (server.port == 0) server.port = usual_port;
  }
  refuse_twins(reached_at(url), "server");
  if (url.login.user.empty()) url.login.user = surroundings.user;
  if (url.database_name.empty()) url.database_name = url.login.user;
  settle_tls(url);
  add_usual_files(url, surroundings);
  make_absolute(url, surroundings.directory);
  return url;
}

std::optional<milliseconds> connect_timeout(const StoreUrl& url) {
  auto text = parameter_of(url, "connect_timeout");
  const char* variable = std::getenv("PGCONNECT_TIMEOUT");
  if (text.empty() && variable != nullptr) text = variable;
  const auto seconds = number_in<int>(text).value_or(0);
  if (seconds <= 0) return std::nullopt;  // as in libpq: no limit
  return std::chrono::seconds(std::min(seconds, 3600));
}

std::string parameter_of(const StoreUrl& url, const char* name) {
  const auto found = url.parameters.find(name);
  return found == url.parameters.end() ? "" : found->second;
}

std::vector<ServerAddress> addresses_of(const StoreUrl& url) {
  const auto list = parameter_of(url, "hostaddr");
  return list.empty() ? std::vector<ServerAddress>() : servers_in(list);
}

}  // namespace dlock::postgres
