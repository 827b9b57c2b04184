#include "store/store_url.hpp"

#include <sys/un.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "net/password_command.hpp"
#include "store/url_advice.hpp"
#include "util/failure.hpp"
#include "util/small_file.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

constexpr std::size_t longest_socket_path = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::size_t longest_master = 255;
constexpr unsigned most_databases = 0x7FFFFFFF;  // the type of the server is int

// Far more than any password or token.
constexpr std::size_t longest_password = 64u << 10;

Failure unusable(const std::string& why) { return Failure::misconfigured(why); }

unsigned database_from(std::string_view text) {
  return number_from(text, 0, most_databases, "the database");
}

// What follows the ?: the database as other programs also name it, and parameters that
// are for them alone. `is_named`: the path has named it already.
void take_query(std::string_view query, bool is_named, StoreUrl& url) {
  const auto& form = url.kind->form;
  if (query.starts_with('#')) throw bad_url(std::string(form.path));
  for (const auto& [name, value] : parameters_of(query)) {
    if (name != "db") {
      url.ignore(name);
      continue;
    }
    if (!form.has_database) {
      throw bad_url(std::string(form.why_no_database) + std::string(form.path));
    }
    const auto database = database_from(value);
    if (is_named && database != url.database) {
      throw bad_url("two databases are named, by /db and by ?db=N");
    }
    url.database = database;
  }
}

std::string master_from(std::string_view text) {
  if (text.empty()) {
    throw bad_url(
        "the master name is missing: add /NAME after the last sentinel, as in `sentinel "
        "monitor`");
  }
  auto master = decoded(text, "the master name");
  if (master.size() > longest_master || !is_printable_utf8(master)) {
    throw bad_url("the master name must be 1 to " + std::to_string(longest_master) +
                  " bytes of printable UTF-8");
  }
  return master;
}

void take_socket(std::string_view rest, StoreUrl& url) {
  const auto end = std::min(rest.find_first_of("?#"), rest.size());
  const auto path = rest.substr(0, end);
  const auto query = rest.substr(end);
  const auto slashes = std::min(path.find_first_not_of('/'), path.size());
  // Two slashes begin a host, perhaps with a password; three mean an empty host.
  if (slashes == 0 || slashes == 2) {
    throw bad_url("expected the absolute path of a socket after the scheme");
  }
  url.path = decoded(path, "the path");
  url.path.erase(0, std::min(url.path.find_first_not_of('/'), url.path.size()));
  url.path.insert(0, "/");
  if (url.path.size() == 1) throw bad_url("the socket path is missing");
  if (url.path.size() > longest_socket_path) {
    throw bad_url("a socket path may have at most " +
                  std::to_string(longest_socket_path) + " bytes");
  }
  take_query(query, false, url);
}

void take_login(std::string_view text, const UrlForm& form, Login& login) {
  auto found = login_from(text);
  if (form.is_user_required && found.user.empty()) {
    throw bad_url("a password for etcd requires a user");
  }
  login.user = std::move(found.user);
  login.password = std::move(found.password);
  if (found.has_colon || form.take_parameters != nullptr) return;
  login.alone = form.is_user_required ? Login::Alone::user : Login::Alone::password;
  if (!form.is_user_required) login.password = std::exchange(login.user, "");
}

void take_servers(std::string_view list, const UrlForm& form, StoreUrl& url) {
  if (form.most == 1) {
    if (list.find(',') != std::string_view::npos) {
      throw bad_url(
          "only one host can be named (redis+sentinel:// and redis+cluster:// take "
          "more)");
    }
    url.servers.push_back(server_from(list, form.port));
    return;
  }
  if (list.empty() && form.least == 0) return;
  url.servers = servers_from(list, form.port, std::string(form.server),
                             form.take_parameters != nullptr);
  const auto count = url.servers.size();
  if (count < form.least || count > form.most) {
    throw bad_url("a quorum needs " + std::to_string(form.least) + " to " +
                  std::to_string(form.most) + " servers, not " + std::to_string(count));
  }
}

// What follows the servers as libpq reads it: /NAME?parameters.
void take_name_and_parameters(std::string_view behind, const UrlForm& form,
                              StoreUrl& url) {
  const auto end = std::min(behind.find_first_of("?#"), behind.size());
  const auto path = behind.substr(0, end);
  if (path.find('/', 1) != std::string_view::npos) {
    throw bad_url("write / in the name of the database as %2F; " +
                  std::string(form.path));
  }
  if (path.size() > 1) url.database_name = decoded(path.substr(1), "the database");
  form.take_parameters(url, parameters_of(behind.substr(end)));
}

// The inverse of what is read so; a socket as the parameter that psql has for it.
std::string text_with_parameters(const StoreUrl& url) {
  auto text = std::string(url.kind->scheme) + "://";
  if (!url.login.user.empty()) text += encoded(url.login.user) + "@";
  std::vector<std::pair<std::string, std::string>> parameters;
  const auto& servers = url.servers;
  if (servers.size() == 1 && servers.front().is_directory()) {
    const auto port = servers.front().port;
    parameters.emplace_back("host", servers.front().host);
    if (port != 0) parameters.emplace_back("port", std::to_string(port));
  } else {
    text += servers_text(servers, url.kind->form.port);
  }
  parameters.insert(parameters.end(), url.parameters.begin(), url.parameters.end());
  if (!url.database_name.empty() || !parameters.empty()) text += "/";
  text += encoded(url.database_name);
  char before = '?';
  for (const auto& [name, value] : parameters) {
    text += std::exchange(before, '&') + name + "=" + encoded(value, "/:,");
  }
  return text;
}

// What follows the servers: a name, a number, or neither, and parameters.
void take_path(std::string_view behind, const UrlForm& form, StoreUrl& url) {
  const auto end = std::min(behind.find_first_of("?#"), behind.size());
  auto path = behind.substr(0, end);
  path.remove_prefix(std::min<std::size_t>(1, path.size()));
  if (form.has_master) {
    const auto slash = std::min(path.find('/'), path.size());
    url.master = master_from(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  if (!path.empty() && !form.has_database) {
    throw bad_url(std::string(form.why_no_database) + std::string(form.path));
  }
  if (!path.empty()) url.database = database_from(path);
  take_query(behind.substr(end), !path.empty(), url);
}

// Whether the value of a parameter, whose name is as a URL has it, may be a secret.
bool is_secret_parameter(std::string_view written) {
  const auto name = lower_case(percent_unescaped(written).text);
  constexpr std::string_view parts[] = {"pass", "pwd", "secret", "token", "auth"};
  return name != "passfile" && std::ranges::any_of(parts, [&](std::string_view part) {
           return name.find(part) != std::string::npos;
         });
}

}  // namespace

std::string canonical_scheme(std::string_view scheme) {
  auto text = lower_case(scheme);
  constexpr std::string_view other = "valkey";
  if (text.starts_with(other)) text.replace(0, other.size(), "redis");
  return text == "postgresql" ? "postgres" : text;
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

StoreUrl StoreUrl::parsed(const StoreKind& kind, std::string_view scheme,
                          const std::string& rest) {
  const auto& form = kind.form;
  StoreUrl url;
  url.kind = &kind;
  if (form.place == UrlForm::Place::nowhere) {
    if (!rest.empty()) {
      throw bad_url("nothing may follow " + std::string(kind.scheme) + ":");
    }
    return url;
  }
  if (form.place == UrlForm::Place::directory) {
    if (!rest.empty() && (rest.front() != '/' || rest.find('\0') != std::string::npos)) {
      throw bad_url("the directory must be an absolute path");
    }
    url.path = normalized_directory(rest);
    return url;
  }
  refuse_controls(rest);
  if (rest.empty() && form.least == 0) {
    form.take_parameters(url, {});
    return url;
  }
  if (scheme == kind.socket_scheme) {
    take_socket(rest, url);
    return url;
  }
  const auto parts = url_parts(rest, "[user[:password]@]" + std::string(form.shape));
  if (parts.login) take_login(*parts.login, form, url.login);
  take_servers(parts.servers, form, url);
  if (form.take_parameters != nullptr) {
    take_name_and_parameters(parts.behind, form, url);
    return url;
  }
  take_path(parts.behind, form, url);
  if (scheme == kind.tls_scheme) {
    url.tls.emplace();
    url.sentinel_tls.emplace();
  }
  return url;
}

void StoreUrl::set(const Credentials& credentials) {
  login.set(credentials.user, credentials.password, credentials.password_file,
            credentials.password_command);
  sentinel_login.set(credentials.sentinel_user, credentials.sentinel_password,
                     credentials.sentinel_password_file);
  if (tls) tls = credentials.tls;
  if (!credentials.sentinel_tls) sentinel_tls.reset();
  if (sentinel_tls) {
    sentinel_tls = credentials.tls;
    sentinel_tls->name.clear();  // a sentinel is named by its host
  }
  replicas = credentials.replicas;
  terms = credentials.terms;
  addresses = credentials.addresses;
}

void StoreUrl::ignore(const std::string& name) {
  const bool is_name = name.size() <= 60 && std::ranges::all_of(name, [](char c) {
                         return is_alphanumeric(c) || c == '_' || c == '-' || c == '.';
                       });
  if (!is_name) throw bad_url("a parameter has a name that dlock does not know");
  if (must_be_obeyed(name)) {
    throw bad_url("the parameter " + name +
                  " is not supported, and not ignored, because it may be about TLS, the "
                  "login or the place of the locks: leave it out, and use dlock's own "
                  "options (--tls-ca FILE, --tls-insecure, --user NAME, --password-file "
                  "FILE; man dlock-stores)");
  }
  ignored.push_back(name);
}

std::string StoreUrl::text() const {
  const auto number = std::to_string(database);
  if (kind->form.place != UrlForm::Place::servers) {
    return std::string(kind->scheme) + ":" + path;
  }
  if (!path.empty()) {
    return std::string(kind->socket_scheme) + ":" + encoded(path, "/") +
           (database == 0 ? "" : "?db=" + number);
  }
  if (kind->form.take_parameters != nullptr) return text_with_parameters(*this);
  auto url = std::string(tls ? kind->tls_scheme : kind->scheme) + "://";
  // A lone word may be a password, unless the password is elsewhere.
  const bool is_unsure = login.alone == Login::Alone::user && !login.has_password();
  if (!login.user.empty() && !is_unsure) url += encoded(login.user) + "@";
  url += servers_text(servers, kind->form.port);
  if (!master.empty()) url += "/" + encoded(master);
  if (database != 0) url += "/" + number;
  return url;
}

asio::awaitable<std::optional<std::string>> Login::secret(asio::io_context& context,
                                                          net::Budget& budget) const {
  if (!password_command.empty()) {
    co_return co_await net::password_printed_by(context, password_command, budget);
  }
  if (!password_file.empty()) co_return password_in(password_file);
  co_return password;
}

std::string remark_on_password(const std::optional<std::string>& password) {
  if (!password || password->empty()) return "";
  const auto is_in = [](char c, std::string_view set) {
    return set.find(c) != std::string_view::npos;
  };
  if (is_in(password->back(), "\r\n")) return "; the password ends with a line end";
  if (is_in(password->back(), " \t")) return "; the password ends with a blank";
  if (is_in(password->front(), " \t\r\n")) return "; the password begins with a blank";
  const bool is_quoted = password->size() > 1 && password->front() == password->back();
  if (is_quoted && is_in(password->front(), "\"'")) return "; the password is in quotes";
  return "";
}

void Login::set(const std::optional<std::string>& new_user,
                const std::optional<std::string>& new_password,
                const std::string& new_password_file,
                const std::vector<std::string>& new_password_command) {
  const bool is_elsewhere = !new_password_file.empty() || !new_password_command.empty();
  const bool has_other = is_elsewhere || new_password;
  if (alone == Alone::password && (has_other || new_user == password)) {
    user = *std::exchange(password, std::nullopt);
    alone = Alone::nothing;
  }
  if (new_user) {
    user = *new_user;
    if (alone == Alone::user) alone = Alone::nothing;
  }
  if (is_elsewhere) {
    password_file = new_password_file;
    password_command = new_password_command;
    password.reset();
  } else if (new_password) {
    password = new_password;
  }
}

std::string password_from(std::string content) {
  constexpr const char* mark = "\xEF\xBB\xBF";
  if (content.starts_with(mark)) content.erase(0, 3);
  if (content.find('\0') != std::string::npos) {
    throw unusable("contains a NUL byte (it must be UTF-8 text, not UTF-16 or binary)");
  }
  const auto end = content.find_last_not_of("\r\n");
  content.resize(end == std::string::npos ? 0 : end + 1);
  if (content.empty()) throw unusable("it is empty");
  if (content.find_first_of("\r\n") != std::string::npos) {
    throw unusable("it has more than one line, and a password is one line");
  }
  return content;
}

std::string password_in(const std::string& file) {
  FileKind kind{"password file " + printable(file, 200), longest_password,
                Use::credential};
  kind.is_secret = true;
  const auto content = small_file(file, kind).text;
  try {
    return password_from(content);
  } catch (const Failure& failure) {
    throw Failure(failure.kind(), kind.name + ": " + failure.what());
  }
}

}  // namespace dlock
