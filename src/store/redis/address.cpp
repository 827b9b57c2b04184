#include "store/redis/address.hpp"

#include <arpa/inet.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>

#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

constexpr auto npos = std::string_view::npos;

constexpr std::uint16_t usual_port = 6379;
constexpr unsigned most_databases = 0x7FFFFFFF;  // what the server counts them with
constexpr std::size_t longest_host = 255;
constexpr std::size_t longest_path = sizeof(sockaddr_un::sun_path) - 1;

Failure wrong(const std::string& why) {
  return Failure(Failure::Kind::misconfigured, why);
}

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool all_alphanumeric_or(std::string_view others, std::string_view text) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return is_alphanumeric(c) || others.find(c) != npos;
  });
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// `what` is for the message: "the password".
std::string decoded(std::string_view text, const std::string& what) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0)
        throw wrong("a % in " + what + " has to be written as %25");
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == '\0') throw wrong("a NUL byte cannot be in " + what);
    out += c;
  }
  return out;
}

std::string encoded(std::string_view text, std::string_view also_as_it_is = "") {
  constexpr char digits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (is_alphanumeric(c) || std::string_view("-._~").find(c) != npos ||
        also_as_it_is.find(c) != npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return out;
}

// Decimal digits and nothing else.
unsigned number(std::string_view text, unsigned least, unsigned most,
                const std::string& what) {
  unsigned value = 0;
  const auto* last = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || parsed != last || value < least || value > most) {
    throw wrong(what + " has to be a number from " + std::to_string(least) + " to " +
                std::to_string(most));
  }
  return value;
}

unsigned database(std::string_view text) {
  return number(text, 0, most_databases, "the database");
}

// user, user:password or :password
void take_login(std::string_view text, Target& target) {
  if (text.find('@') != npos) {
    throw wrong("an @ in the user or the password has to be written as %40");
  }
  const auto colon = text.find(':');
  target.user = decoded(text.substr(0, colon), "the user");
  if (colon != npos) {
    target.password = decoded(text.substr(colon + 1), "the password");
    // As left by a template whose variable was not set.
    if (target.password->empty()) throw wrong("the password is empty");
  } else if (target.user.empty()) {
    throw wrong("nothing stands before the @");
  }
}

// An IPv6 address, perhaps with a zone: "fe80::1%eth0" or, as RFC 6874 wants it,
// "fe80::1%25eth0".
std::string address_in_brackets(std::string_view text) {
  const auto percent = text.find('%');
  std::string address(text.substr(0, percent));
  in6_addr unused{};
  if (address.find('\0') != npos ||
      ::inet_pton(AF_INET6, address.c_str(), &unused) != 1) {
    throw wrong("no IPv6 address stands between [ and ]");
  }
  if (percent == npos) return address;
  auto zone = text.substr(percent + 1);
  if (zone.starts_with("25") && zone.size() > 2) zone.remove_prefix(2);
  if (zone.empty() || zone.size() > longest_host || !all_alphanumeric_or("-._", zone)) {
    throw wrong("the zone of the IPv6 address is none");
  }
  return address + "%" + std::string(zone);
}

// host, host:port, [address] or [address]:port
void take_server(std::string_view text, Target& target) {
  auto port = text.find(':');
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == npos) throw wrong("a ] is missing behind the IPv6 address");
    target.host = address_in_brackets(text.substr(1, end - 1));
    port = end + 1 < text.size() ? end + 1 : npos;
    if (port != npos && text[port] != ':') {
      throw wrong("only a port can follow the ]");
    }
  } else {
    if (port != npos && text.find(':', port + 1) != npos) {
      throw wrong("there is one : too many (an IPv6 address needs brackets: [::1])");
    }
    const auto host = text.substr(0, port);
    if (host.empty()) throw wrong("the host is missing");
    if (host.find(',') != npos) throw wrong("only one host can be named");
    if (host.size() > longest_host || !all_alphanumeric_or("-._", host)) {
      throw wrong("the host is neither a name nor an address");
    }
    target.host = host;
  }
  if (port != npos) {
    target.port =
        static_cast<std::uint16_t>(number(text.substr(port + 1), 1, 65535, "the port"));
  }
}

Target over_tcp(std::string_view rest) {
  if (!rest.starts_with("//")) {
    throw wrong("//[user[:password]@]host[:port][/db] has to follow the scheme");
  }
  rest.remove_prefix(2);
  const auto end = std::min(rest.find_first_of("/?#"), rest.size());
  const auto authority = rest.substr(0, end);
  const auto behind = rest.substr(end);
  if (behind.find('@') != npos) {
    throw wrong(
        "/, ? and # in the user or the password have to be written as %2F, %3F "
        "and %23");
  }
  Target target;
  const auto at = authority.rfind('@');
  if (at != npos) take_login(authority.substr(0, at), target);
  take_server(at == npos ? authority : authority.substr(at + 1), target);
  if (behind.find_first_of("?#") != npos) {
    throw wrong("only /db can follow the host");
  }
  if (behind.size() > 1) target.database = database(behind.substr(1));
  return target;
}

Target over_socket(std::string_view rest) {
  const auto end = std::min(rest.find_first_of("?#"), rest.size());
  const auto path = rest.substr(0, end);
  const auto query = rest.substr(end);
  const auto slashes = std::min(path.find_first_not_of('/'), path.size());
  // Two slashes begin a host, perhaps with a password; three are one that is left out.
  if (slashes == 0 || slashes == 2) {
    throw wrong("the absolute path of a socket has to follow the scheme");
  }
  Target target;
  target.path = decoded(path, "the path");
  target.path.erase(0, std::min(target.path.find_first_not_of('/'), target.path.size()));
  target.path.insert(0, "/");
  if (target.path.size() == 1) throw wrong("the path of the socket is missing");
  if (target.path.size() > longest_path) {
    throw wrong("the path of a socket has at most " + std::to_string(longest_path) +
                " bytes");
  }
  if (!query.empty()) {
    constexpr std::string_view prefix = "?db=";
    if (!query.starts_with(prefix)) throw wrong("only ?db=N can follow the path");
    target.database = database(query.substr(prefix.size()));
  }
  return target;
}

}  // namespace

Target target_from(std::string_view scheme, std::string_view rest) {
  const bool has_controls = std::any_of(rest.begin(), rest.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
  if (has_controls) throw wrong("it has control characters");
  if (scheme == "redis+unix") return over_socket(rest);
  auto target = over_tcp(rest);
  if (scheme == "rediss") target.tls.emplace();
  return target;
}

std::string url_of(const Target& target) {
  const auto database = std::to_string(target.database);
  if (!target.path.empty()) {
    return "redis+unix:" + encoded(target.path, "/") +
           (target.database == 0 ? "" : "?db=" + database);
  }
  std::string url = target.tls ? "rediss://" : "redis://";
  if (!target.user.empty()) url += encoded(target.user) + "@";
  if (target.host.find(':') == npos) {
    url += target.host;
  } else {
    const auto zone = target.host.find('%');
    url += "[" + target.host.substr(0, zone);
    if (zone != npos) url += "%25" + target.host.substr(zone + 1);
    url += "]";
  }
  if (target.port != usual_port) url += ":" + std::to_string(target.port);
  if (target.database != 0) url += "/" + database;
  return url;
}

}  // namespace dlock::redis
