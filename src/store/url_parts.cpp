#include "store/url_parts.hpp"

#include <arpa/inet.h>

#include <algorithm>

#include "store/store_url.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

constexpr auto npos = std::string_view::npos;

constexpr std::size_t longest_host = 255;

bool all_alphanumeric_or(std::string_view others, std::string_view text) {
  return std::ranges::all_of(
      text, [&](char c) { return is_alphanumeric(c) || others.find(c) != npos; });
}

// An IPv6 address, perhaps with a zone: "fe80::1%eth0" or, as RFC 6874 wants it,
// "fe80::1%25eth0".
std::string address_in_brackets(std::string_view text) {
  const auto percent = text.find('%');
  std::string address(text.substr(0, percent));
  in6_addr bytes{};
  if (address.find('\0') != npos || ::inet_pton(AF_INET6, address.c_str(), &bytes) != 1) {
    throw bad_url("invalid IPv6 address in brackets");
  }
  // One address has many spellings.
  char usual[INET6_ADDRSTRLEN];
  address = ::inet_ntop(AF_INET6, &bytes, usual, sizeof usual);
  if (percent == npos) return address;
  auto zone = text.substr(percent + 1);
  if (zone.starts_with("25") && zone.size() > 2) zone.remove_prefix(2);
  if (zone.empty() || zone.size() > longest_host || !all_alphanumeric_or("-._", zone)) {
    throw bad_url("invalid IPv6 zone");
  }
  return address + "%" + std::string(zone);
}

std::string directory_from(const std::string& path) {
  auto out = normalized_directory(path);
  if (out.size() > longest_host || !is_printable_utf8(out)) {
    throw bad_url("invalid directory of a socket");
  }
  return out;
}

std::string host_from(std::string_view text, bool may_be_directory) {
  if (text.empty()) throw bad_url("the host is missing");
  if (may_be_directory && text.find('%') != npos) {
    const auto path = decoded(text, "the host");
    if (path.starts_with('/')) return directory_from(path);
  }
  if (text.size() > longest_host || !all_alphanumeric_or("-._", text)) {
    throw bad_url("invalid host name or address");
  }
  return std::string(text);
}

// As a key of the map, which compares addresses.
ServerAddress address_from(std::string_view text) {
  auto address = server_from(text, 0);
  address.host = normalized_host(address.host);
  return address;
}

}  // namespace

std::string normalized_directory(std::string_view path) {
  std::string out;
  for (const char c : path) {
    if (c != '/' || out.empty() || out.back() != '/') out += c;
  }
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

Failure bad_url(const std::string& why) { return Failure::misconfigured(why); }

void refuse_controls(std::string_view rest) {
  const bool has_controls = std::ranges::any_of(
      rest, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (has_controls) throw bad_url("contains control characters");
}

std::string decoded(std::string_view text, const std::string& what) {
  auto decoded = percent_unescaped(text);
  if (!decoded.is_valid) throw bad_url("write a % in " + what + " as %25");
  if (decoded.text.find('\0') != npos) throw bad_url(what + " contains a NUL byte");
  return std::move(decoded.text);
}

std::string encoded(std::string_view text, std::string_view also_as_it_is) {
  return percent_encoded(text, "-._~" + std::string(also_as_it_is));
}

unsigned number_from(std::string_view text, unsigned least, unsigned most,
                     const std::string& what) {
  const auto value = number_in<unsigned>(text);
  if (!value || *value < least || *value > most) {
    throw bad_url(what + " must be a number from " + std::to_string(least) + " to " +
                  std::to_string(most));
  }
  return *value;
}

UrlParts url_parts(std::string_view rest, const std::string& form) {
  if (!rest.starts_with("//")) throw bad_url("expected //" + form + " after the scheme");
  rest.remove_prefix(2);
  const auto end = std::min(rest.find_first_of("/?#"), rest.size());
  const auto authority = rest.substr(0, end);
  const auto behind = rest.substr(end);
  if (behind.find('@') != npos) {
    throw bad_url(
        "write /, ? and # in the user or the password as %2F, %3F and %23, and an @ "
        "after the host as %40");
  }
  const auto at = authority.rfind('@');
  if (at == npos) return {std::nullopt, authority, behind};
  return {authority.substr(0, at), authority.substr(at + 1), behind};
}

std::map<std::string, std::string> parameters_of(std::string_view query) {
  std::map<std::string, std::string> parameters;
  if (query.find('#') != npos) throw bad_url("write # in a parameter as %23");
  query.remove_prefix(std::min<std::size_t>(1, query.size()));
  for (const auto part : split(query, '&')) {
    if (part.empty()) continue;
    const auto equals = part.find('=');
    if (equals == npos || equals == 0) {
      throw bad_url("expected ?parameter=value, with & between several");
    }
    auto value = decoded(part.substr(equals + 1), "a parameter");
    auto name = decoded(part.substr(0, equals), "a parameter");
    const auto [known, is_new] = parameters.try_emplace(std::move(name), value);
    if (!is_new && known->second != value) throw bad_url("a parameter has two values");
  }
  return parameters;
}

UrlLogin login_from(std::string_view text) {
  if (text.find('@') != npos) {
    throw bad_url(
        "only one login is allowed, before the first host; write an @ in the user or the "
        "password as %40");
  }
  UrlLogin login;
  const auto colon = text.find(':');
  login.user = decoded(text.substr(0, colon), "the user");
  login.has_colon = colon != npos;
  if (colon != npos) {
    login.password = decoded(text.substr(colon + 1), "the password");
    // As left by a template whose variable was not set.
    if (login.password->empty()) throw bad_url("the password is empty");
  } else if (login.user.empty()) {
    throw bad_url("the user before the @ is missing");
  }
  return login;
}

std::string ServerAddress::shown() const {
  const auto name = printable(host, 200);
  const bool has_colons = name.find(':') != npos;
  return (has_colons ? "[" + name + "]" : name) + ":" + std::to_string(port);
}

std::string normalized_host(std::string host) {
  if (host.starts_with('/')) return host;
  if (host.find(':') == npos) return lower_case(host);
  in6_addr bytes{};
  if (::inet_pton(AF_INET6, host.c_str(), &bytes) != 1) return host;  // with a zone
  char usual[INET6_ADDRSTRLEN];
  return ::inet_ntop(AF_INET6, &bytes, usual, sizeof usual);
}

ServerAddress server_from(std::string_view text, std::uint16_t port_if_none,
                          bool may_be_directory) {
  ServerAddress server;
  server.port = port_if_none;
  auto port = text.find(':');
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == npos) throw bad_url("missing ] after the IPv6 address");
    server.host = address_in_brackets(text.substr(1, end - 1));
    port = end + 1 < text.size() ? end + 1 : npos;
    if (port != npos && text[port] != ':') {
      throw bad_url("only a port may follow the ]");
    }
  } else {
    if (port != npos && text.find(':', port + 1) != npos) {
      throw bad_url("too many colons (write an IPv6 address in brackets: [::1])");
    }
    server.host = host_from(text.substr(0, port), may_be_directory);
  }
  if (port != npos) {
    server.port = static_cast<std::uint16_t>(
        number_from(text.substr(port + 1), 1, 65535, "the port"));
  }
  return server;
}

std::string server_text(const ServerAddress& server, std::uint16_t port_if_none) {
  std::string text;
  if (server.is_directory()) {
    text = encoded(server.host);
  } else if (server.host.find(':') == npos) {
    text = server.host;
  } else {
    const auto zone = server.host.find('%');
    text = "[" + server.host.substr(0, zone);
    if (zone != npos) text += "%25" + server.host.substr(zone + 1);
    text += "]";
  }
  if (server.port != port_if_none) text += ":" + std::to_string(server.port);
  return text;
}

std::vector<ServerAddress> servers_from(std::string_view list, std::uint16_t port_if_none,
                                        const std::string& what,
                                        bool may_be_directories) {
  if (list.empty()) {
    throw bad_url("no " + what + " given: expected host[:port],host[:port],...");
  }
  std::vector<ServerAddress> servers;
  for (const auto part : split(list, ',')) {
    const auto which = what + " " + std::to_string(servers.size() + 1);
    if (servers.size() == most_servers) {
      throw bad_url("at most " + std::to_string(most_servers) + " " + what +
                    "s are allowed");
    }
    if (part.empty()) throw bad_url(which + " is empty: remove the extra comma");
    try {
      servers.push_back(server_from(part, port_if_none, may_be_directories));
    } catch (const Failure& failure) {
      throw bad_url(which + ": " + failure.what());
    }
    auto& server = servers.back();
    server.host = normalized_host(std::move(server.host));
  }
  if (port_if_none != 0) refuse_twins(servers, what);
  return servers;
}

void refuse_twins(const std::vector<ServerAddress>& servers, const std::string& what) {
  for (auto server = servers.begin(); server != servers.end(); ++server) {
    const auto twin = std::find(servers.begin(), server, *server);
    if (twin == server) continue;
    const auto number = [&](auto one) {
      return std::to_string(one - servers.begin() + 1);
    };
    throw bad_url(what + " " + number(server) + " is the same as " + what + " " +
                  number(twin) + ": name each one once");
  }
}

std::string servers_text(const std::vector<ServerAddress>& servers,
                         std::uint16_t port_if_none) {
  std::string text;
  for (const auto& server : servers) {
    text += (text.empty() ? "" : ",") + server_text(server, port_if_none);
  }
  return text;
}

AddressMap AddressMap::parsed(std::string_view text) {
  AddressMap map;
  for (const auto entry : split(text, ',')) {
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos) {
      throw bad_url("expected FROM=TO, as in 10.0.0.5:6379=db.example:7001");
    }
    Entry one{address_from(entry.substr(0, equals)),
              address_from(entry.substr(equals + 1))};
    if (std::ranges::any_of(map.entries_,
                            [&](const Entry& other) { return other.from == one.from; })) {
      throw bad_url("an address is mapped twice");
    }
    map.entries_.push_back(std::move(one));
  }
  return map;
}

ServerAddress AddressMap::used_for(ServerAddress announced) const {
  if (entries_.empty()) return announced;
  const auto host = normalized_host(announced.host);
  const Entry* found = nullptr;
  for (const auto& entry : entries_) {
    const bool is_exact = entry.from.port == announced.port;
    if (entry.from.host != host || !(is_exact || entry.from.port == 0)) continue;
    if (found == nullptr || is_exact) found = &entry;
  }
  if (found == nullptr) return announced;
  auto used = found->to;
  if (used.port == 0) used.port = announced.port;
  return used;
}

std::optional<ServerAddress> AddressMap::announced_for(const ServerAddress& used) const {
  for (const auto& [from, to] : entries_) {
    auto announced = from;
    if (announced.port == 0) announced.port = used.port;
    if (used_for(announced) == used) return announced;
  }
  return std::nullopt;
}

}  // namespace dlock
