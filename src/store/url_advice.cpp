#include "store/url_advice.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "store/store_url.hpp"
#include "store/url_parts.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// The first characters of `text` that are alphanumeric or among `others`.
std::string_view run_of(std::string_view text, std::string_view others) {
  const auto end = std::ranges::find_if_not(text, [&](char c) {
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
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
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

bool is_scheme(std::string_view text) {
  return !text.empty() && text.size() <= 30 && run_of(text, "+-.").size() == text.size();
}

// Whether a word is the name of a kind of store, here or elsewhere. Any other one may be
// a password.
bool is_kind(std::string_view word) {
  constexpr std::string_view names[] = {"local",    "none",     "redis",
                                        "sentinel", "cluster",  "etcd",
                                        "pg",       "postgres", "quorum"};
  return std::ranges::find(names, canonical_scheme(word)) != std::end(names);
}

}  // namespace

std::string password_of_run_outside() {
  if (std::getenv("DLOCK_NAME") == nullptr) return "";
  return "; the dlock that runs this command does not pass on the password of its URL, "
         "its variable or its command: use a file, or name the whole URL again (--store)";
}

std::string shown_url(std::string_view url) {
  const auto colon = url.find(':');
  if (colon == std::string_view::npos && is_kind(url)) return std::string(url);
  if (colon == std::string_view::npos || !is_scheme(url.substr(0, colon))) return "...";
  const auto scheme = std::string(url.substr(0, colon + 1));
  const auto rest = url.substr(colon + 1);
  const bool has_slashes = rest.starts_with("//");
  constexpr std::string_view of_paths[] = {"local", "none", "redis+unix"};
  const bool is_path =
      std::ranges::find(of_paths, canonical_scheme(url.substr(0, colon))) !=
      std::end(of_paths);
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

std::string advice_on(const std::string& scheme, std::string_view rest,
                      const std::string& all_kinds) {
  const auto plain = scheme.substr(0, scheme.find_first_of("+:"));
  if (plain == "postgres" || plain == "postgresql" ||
      (scheme == "jdbc" && rest.starts_with("postgresql:"))) {
    return "write postgresql://user@host/database, without the driver";
  }
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

std::string advice_on_begin(std::string_view url) {
  const auto is_one_of = [&](std::string_view characters) {
    return !url.empty() && characters.find(url.front()) != std::string_view::npos;
  };
  constexpr std::string_view blanks = " \t\r\n";
  const bool ends_blank = !url.empty() && blanks.find(url.back()) != blanks.npos;
  if (is_one_of("\"'` \t<") || ends_blank) {
    return "leave out the quotes, blanks or line ends around the URL";
  }
  if (is_one_of("${%")) return "a variable whose value nothing has put in";
  return "";
}

bool must_be_obeyed(std::string_view name) {
  // About TLS, the login, and which server or which locks are meant.
  constexpr std::string_view parts[] = {
      "ssl",      "tls",     "secure",  "encrypt",   "cert",       "verif",    "channel",
      "keystore", "keyfile", "ca_",     "cafile",    "capath",     "trust",    "auth",
      "pass",     "pwd",     "secret",  "token",     "credential", "login",    "apikey",
      "api_key",  "sasl",    "iam",     "principal", "jaas",       "spnego",   "gss",
      "kerb",     "krb",     "scram",   "host",      "addr",       "endpoint", "proxy",
      "sentinel", "master",  "cluster", "database",  "prefix",     "dlock"};
  constexpr std::string_view words[] = {
      "db",         "dbname",      "user", "username", "port", "namespace",
      "socket",     "ca",          "key",  "pw",       "sni",  "server",
      "servername", "server_name", "role", "readonly"};
  const auto text = lower_case(name);
  return std::ranges::find(words, text) != std::end(words) ||
         std::ranges::any_of(parts, [&](std::string_view part) {
           return text.find(part) != std::string::npos;
         });
}

}  // namespace dlock
