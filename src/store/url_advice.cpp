#include <algorithm>
#include <iterator>

#include "store/store_url.hpp"
#include "store/url_parts.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// The first characters of `text` that are alphanumeric or among `others`.
std::string_view run_of(std::string_view text, std::string_view others) {
  const auto end = std::find_if_not(text.begin(), text.end(), [&](char c) {
    return is_alphanumeric(c) || others.find(c) != std::string_view::npos;
  });
  return text.substr(0, static_cast<std::size_t>(end - text.begin()));
}

std::string_view without_first(std::string_view text, std::size_t size) {
  return text.substr(std::min(size, text.size()));
}

// The host, or the address in brackets, that `text` begins with.
std::string_view host_at(std::string_view text) {
  if (!text.starts_with('[')) return run_of(text, "-._");
  const auto address = run_of(text.substr(1), ":.%");
  return without_first(text, 1 + address.size()).starts_with(']')
             ? text.substr(0, address.size() + 2)
             : std::string_view();
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

// The first server of what follows a scheme, if it is all that is there, or `usual`: the
// text of a message.
std::string server_in(std::string_view rest, const std::string& usual) {
  if (!rest.starts_with("//")) return usual;
  rest.remove_prefix(2);
  const auto host = host_at(rest);
  const auto behind = rest.substr(host.size());
  const auto port = behind.starts_with(':') ? run_of(behind.substr(1), "") : "";
  const auto end = without_first(behind, port.empty() ? 0 : port.size() + 1);
  const bool is_whole =
      !host.empty() && (end.empty() || end == "/") && (port.empty() || is_port(port));
  return is_whole ? std::string(host) + (port.empty() ? "" : ":" + std::string(port))
                  : usual;
}

std::string path_in(std::string_view rest, const std::string& usual) {
  if (rest.starts_with("//")) rest.remove_prefix(2);
  const auto path = run_of(rest, "/-._");
  return path.size() > 1 && path.size() == rest.size() && path.starts_with('/')
             ? std::string(path)
             : usual;
}

struct NearScheme {
  std::string_view scheme;
  std::string_view instead;  // a socket or a directory if it ends with a colon
};

// Schemes of other programs for what is a store here.
constexpr NearScheme near_schemes[] = {
    {"unix", "redis+unix:"},
    {"redis-socket", "redis+unix:"},
    {"redis+socket", "redis+unix:"},
    {"redis-unix", "redis+unix:"},
    {"redisunix", "redis+unix:"},
    {"rediss+unix", "redis+unix:"},
    {"socket", "redis+unix:"},
    {"tcp", "redis://"},
    {"redis+tcp", "redis://"},
    {"redis-tcp", "redis://"},
    {"keydb", "redis://"},
    {"dragonfly", "redis://"},
    {"garnet", "redis://"},
    {"tls", "rediss://"},
    {"ssl", "rediss://"},
    {"redis+tls", "rediss://"},
    {"redis+ssl", "rediss://"},
    {"redis-tls", "rediss://"},
    {"redis-ssl", "rediss://"},
    {"rediss+tcp", "rediss://"},
    {"sentinel", "redis+sentinel://"},
    {"redis-sentinel", "redis+sentinel://"},
    {"redissentinel", "redis+sentinel://"},
    {"sentinels", "rediss+sentinel://"},
    {"rediss-sentinel", "rediss+sentinel://"},
    {"cluster", "redis+cluster://"},
    {"redis-cluster", "redis+cluster://"},
    {"rediss-cluster", "rediss+cluster://"},
    {"quorum", "redis+quorum://"},
    {"redlock", "redis+quorum://"},
    {"redis+redlock", "redis+quorum://"},
    {"etcd2", "etcd://"},
    {"etcd3", "etcd://"},
    {"etcdv3", "etcd://"},
    {"etcd+http", "etcd://"},
    {"etcd3+http", "etcd://"},
    {"etcd+https", "etcds://"},
    {"etcd3+https", "etcds://"},
    {"etcd+tls", "etcds://"},
    {"pgsql", "postgresql://"},
    {"psql", "postgresql://"},
    {"pg", "postgresql://"},
    {"postgis", "postgresql://"},
    {"timescaledb", "postgresql://"},
    {"jdbc", "postgresql://"},
    {"file", "local:"},
    {"dir", "local:"},
    {"path", "local:"},
};

struct NearParameter {
  std::string_view part;  // of its name, in lower case
  std::string_view instead;
};

// Parameters of other programs. The first match counts.
constexpr NearParameter near_parameters[] = {
    {"cert_reqs", "--tls-ca FILE, or --tls-insecure if it must not be verified"},
    {"check_hostname", "--tls-name NAME, or --tls-insecure if it must not be verified"},
    {"verify", "--tls-ca FILE, or --tls-insecure if it must not be verified"},
    {"insecure", "--tls-ca FILE, or --tls-insecure if it must not be verified"},
    {"reject", "--tls-ca FILE, or --tls-insecure if it must not be verified"},
    {"sslmode", "rediss:// or etcds:// for TLS"},
    {"keyfile", "--tls-key FILE"},
    {"ssl_key", "--tls-key FILE"},
    {"certfile", "--tls-cert FILE"},
    {"ca_cert", "--tls-ca FILE"},
    {"ca_path", "--tls-ca FILE"},
    {"cafile", "--tls-ca FILE"},
    {"cacert", "--tls-ca FILE"},
    {"pass", "--password-file FILE or DLOCK_PASSWORD"},
    {"auth", "--password-file FILE or DLOCK_PASSWORD"},
    {"token", "--password-file FILE or DLOCK_PASSWORD"},
    {"user", "--user NAME"},
    {"timeout", "--store-timeout D"},
    {"tls", "rediss:// or etcds:// for TLS"},
    {"ssl", "rediss:// or etcds:// for TLS"},
    {"namespace", "--namespace NS"},
    {"prefix", "--namespace NS"},
    {"family", "nothing: addresses of both families are tried"},
};

// Whether the value of a parameter, whose name is as a URL has it, may be a secret.
bool is_secret_parameter(std::string_view written) {
  const auto name = lower_case(percent_unescaped(written).text);
  constexpr std::string_view parts[] = {"pass", "pwd", "secret", "token", "auth"};
  return name != "passfile" &&
         std::any_of(std::begin(parts), std::end(parts), [&](std::string_view part) {
           return name.find(part) != std::string::npos;
         });
}

bool is_scheme(std::string_view text) {
  return !text.empty() && text.size() <= 30 && run_of(text, "+-.").size() == text.size();
}

}  // namespace

std::string canonical_scheme(std::string_view scheme) {
  auto text = lower_case(scheme);
  constexpr std::string_view other = "valkey";
  if (text.starts_with(other)) text.replace(0, other.size(), "redis");
  return text == "postgresql" ? "postgres" : text;
}

std::string shown_url(std::string_view url) {
  const auto colon = url.find(':');
  if (colon == std::string_view::npos || !is_scheme(url.substr(0, colon))) return "...";
  const auto scheme = std::string(url.substr(0, colon + 1));
  const auto rest = url.substr(colon + 1);
  const bool has_slashes = rest.starts_with("//");
  constexpr std::string_view of_paths[] = {"local", "none", "redis+unix"};
  const bool is_path =
      std::find(std::begin(of_paths), std::end(of_paths),
                canonical_scheme(url.substr(0, colon))) != std::end(of_paths);
  // Without slashes it may be user:password@host, or a host and its port.
  if (!has_slashes && !is_path) return rest.empty() ? scheme : "...";
  if (rest.find('@') == std::string_view::npos) {
    // A user:password without a host looks like a host with a port.
    const auto head = rest.substr(0, has_slashes ? 2 : 0);
    const auto host = has_slashes ? host_at(rest.substr(2)) : std::string_view();
    const auto begin = head.size() + host.size();
    const auto end = std::min(rest.find_first_of(":=?#%,", begin), rest.size());
    return scheme + std::string(rest.substr(0, end)) + (end < rest.size() ? "..." : "");
  }
  if (!has_slashes) return scheme + "...";
  const auto authority = rest.substr(2, rest.find_first_of("/?#", 2) - 2);
  const auto at = authority.rfind('@');
  // What follows a slash may still be a part of a password.
  const bool is_unsure =
      at == std::string_view::npos ||
      without_first(rest, 2 + authority.size()).find('@') != std::string_view::npos;
  if (is_unsure) return scheme + "//...";
  const auto host = host_at(without_first(authority, at + 1));
  const bool is_all = host.data() + host.size() == url.data() + url.size();
  return scheme + "//...@" + std::string(host) + (is_all ? "" : "...");
}

std::string shown_word(std::string_view word) {
  const bool is_url = word.find("://") != std::string_view::npos;
  return printable(is_url ? shown_url(word) : std::string(word), 60);
}

void hide_login(char* word) {
  const std::string_view text(word);
  const auto start = text.find("://");
  if (start == std::string_view::npos) return;
  const auto last = text.rfind('@');
  const auto first = text.find('?', start);
  for (auto equals = text.find('=', first); equals != std::string_view::npos;
       equals = text.find('=', equals + 1)) {
    const auto before = text.find_last_of("/?&;#=", equals - 1);
    if (!is_secret_parameter(text.substr(before + 1, equals - before - 1))) continue;
    const auto value = equals + 1;
    std::fill(word + value, word + std::min(text.find('&', value), text.size()), 'x');
  }
  // An @ in such a value ends no login, unless it is the only one: then what looks like a
  // parameter may be a login.
  const auto left = text.rfind('@');
  const auto end = left == std::string_view::npos ? last : left;
  if (end != std::string_view::npos && end >= start + 3) {
    std::fill(word + start + 3, word + end, 'x');
  }
}

std::string advice_on(const std::string& scheme, std::string_view rest,
                      const std::string& all_kinds) {
  const std::string of_postgres = "write postgresql://user@host/database";
  if (scheme == "jdbc" && rest.starts_with("postgresql:")) return of_postgres;
  if (!rest.starts_with("//") &&
      (rest.find_first_of("@,=") != std::string_view::npos || is_port(rest))) {
    return "not a store URL: write redis://host:port, with a password "
           "redis://:PASSWORD@host:port, over TLS rediss://; for etcd etcd://host:port";
  }
  if (scheme == "http" || scheme == "https") {
    const std::string tls = scheme == "https" ? "s" : "";
    return "not the URL of a store: write etcd" + tls + "://" +
           server_in(rest, "host:2379") + " for etcd, or redis" + tls +
           "://host:6379 for Redis";
  }
  const auto plain = scheme.substr(0, scheme.find_first_of("+:"));
  if (plain == "postgres" || plain == "postgresql") {
    return of_postgres + ", without the driver behind the +";
  }
  for (const auto& near : near_schemes) {
    if (near.scheme != scheme) continue;
    const auto instead = std::string(near.instead);
    if (instead == "local:") return "write local:" + path_in(rest, "/dir");
    if (instead == "redis+unix:") {
      return "write redis+unix:" + path_in(rest, "/path.sock") +
             (scheme.starts_with("rediss") ? ": a socket is used without TLS" : "");
    }
    if (instead == "postgresql://") return of_postgres;
    const bool has_sentinels = instead.ends_with("sentinel://");
    return "write " + instead +
           (has_sentinels ? "host:port/MASTER" : server_in(rest, "host:port"));
  }
  return "unknown kind of store (" + all_kinds + ")";
}

std::string advice_on_text(std::string_view text, const std::string& all_kinds) {
  // As libpq and its relatives take it.
  for (const std::string_view word : {"dbname=", "host=", "service="}) {
    const auto at = text.find(word);
    if (at == 0 || (at != std::string_view::npos && text[at - 1] == ' ')) {
      return "not a store URL: write postgresql://user@host/database";
    }
  }
  const auto why = "not a store URL (" + all_kinds + ")";
  const bool is_path =
      text.starts_with('/') && text.find_first_of("@?#=") == std::string_view::npos;
  return is_path ? why + ": did you mean local:" + printable(text, 200) + "?" : why;
}

std::string advice_on_query(std::string_view query, const std::string& path) {
  const auto name = lower_case(run_of(without_first(query, 1), "-_."));
  for (const auto& near : near_parameters) {
    if (name.find(near.part) == std::string_view::npos) continue;
    return path + "; for that parameter, use " + std::string(near.instead);
  }
  return path;
}

}  // namespace dlock
