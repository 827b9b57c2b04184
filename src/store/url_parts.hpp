// Parses the parts of URLs that name one or several servers. Invalid input throws Failure
// (misconfigured); its message repeats nothing of the URL, which may contain a password.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "util/failure.hpp"

namespace dlock {

// Far more than anyone uses, and few enough to ask all of them at once.
constexpr std::size_t most_servers = 32;

Failure bad_url(const std::string& why);

void refuse_controls(std::string_view rest);

// Percent-decodes `text`. `what` names it in the message: "the password".
std::string decoded(std::string_view text, const std::string& what);

// The inverse: printable ASCII. Letters, digits, -._~ and the characters in
// `also_as_it_is` are not encoded.
std::string encoded(std::string_view text, std::string_view also_as_it_is = "");

// Only decimal digits. `what` names it in the message: "the port".
unsigned number_from(std::string_view text, unsigned least, unsigned most,
                     const std::string& what);

// The parts of what follows the scheme and its colon.
struct UrlParts {
  std::optional<std::string_view> login;  // before the last @
  std::string_view servers;
  std::string_view behind;  // from the first of / ? and # on
};
// `form` is the expected form, for the message.
UrlParts url_parts(std::string_view rest, const std::string& form);

// The parameters of ?name=value&name=value, decoded, by name. Throws Failure if one has
// no value, or two.
std::map<std::string, std::string> parameters_of(std::string_view query);

// user, user:password or :password, percent-decoded. What has no colon is the user here.
struct UrlLogin {
  std::string user;
  std::optional<std::string> password;
  bool has_colon = false;
};
UrlLogin login_from(std::string_view text);

struct ServerAddress {
  // A name, an address without brackets, or the directory of a socket: an absolute path.
  std::string host;
  std::uint16_t port = 0;

  bool is_directory() const { return host.starts_with('/'); }

  auto operator<=>(const ServerAddress&) const = default;

  // For messages: "127.0.0.1:6379", "[::1]:6379".
  std::string shown() const;
};

// host, host:port, [address] or [address]:port. A percent-encoded path is the directory
// of a socket, if there may be one.
ServerAddress server_from(std::string_view text, std::uint16_t port_if_none,
                          bool may_be_directory = false);

// For comparison: a name in lower case, an IPv6 address as inet_ntop(3) writes it.
std::string normalized_host(std::string host);

// The inverse of server_from(), without the default port.
std::string server_text(const ServerAddress& server, std::uint16_t port_if_none);

// Servers, separated by commas: 1 to most_servers. Hosts are normalized for comparison:
// names in lower case, addresses as inet_ntop(3) writes them. `what` names them in
// messages: "sentinel". All are different, unless `port_if_none` is 0: then their ports
// are still to come, and refuse_twins() follows.
std::vector<ServerAddress> servers_from(std::string_view list, std::uint16_t port_if_none,
                                        const std::string& what,
                                        bool may_be_directories = false);

// Without doubled or trailing slashes, so that one directory has one name.
std::string normalized_directory(std::string_view path);

// Throws Failure (misconfigured) if a server is named twice.
void refuse_twins(const std::vector<ServerAddress>& servers, const std::string& what);

std::string servers_text(const std::vector<ServerAddress>& servers,
                         std::uint16_t port_if_none);

// The addresses to use in place of those that servers announce (--address-map).
//
// Servers behind a port forwarding or in a network of containers announce addresses that
// only their neighbors can reach.
class AddressMap {
 public:
  // FROM=TO, separated by commas, each host, host:port or [address]:port. A FROM without
  // port stands for all ports of the host, a TO without port keeps the port. Throws
  // Failure (misconfigured) if it is something else, or a FROM is there twice.
  static AddressMap parsed(std::string_view text);

  // The address to use for an announced one: the same if nothing maps it. A FROM with a
  // port precedes one without.
  ServerAddress used_for(ServerAddress announced) const;

  // The inverse: what was announced where this address is used, if anything maps to it.
  std::optional<ServerAddress> announced_for(const ServerAddress& used) const;

  bool operator==(const AddressMap&) const = default;

 private:
  struct Entry {
    ServerAddress from;  // port 0: any
    ServerAddress to;    // port 0: the same
    bool operator==(const Entry&) const = default;
  };
  std::vector<Entry> entries_;
};

}  // namespace dlock
