#include "store/redis/address.hpp"

#include <sys/un.h>

#include <algorithm>

#include "store/redis/url_parts.hpp"
#include "store/url_advice.hpp"
#include "util/failure.hpp"

namespace dlock::redis {
namespace {

constexpr std::size_t longest_path = sizeof(sockaddr_un::sun_path) - 1;

constexpr std::string_view db_query = "?db=";

// `query` begins with db_query.
unsigned database_of_query(std::string_view query) {
  const auto end = std::min(query.find('&'), query.size());
  if (end < query.size()) {
    throw bad_url(advice_on_query(query.substr(end), "only ?db=N may be in the query"));
  }
  return database_from(query.substr(db_query.size()));
}

Target over_tcp(std::string_view rest) {
  const auto parts = url_parts(rest, "[user[:password]@]host[:port][/db]");
  if (parts.servers.find(',') != std::string_view::npos) {
    throw bad_url(
        "only one host can be named (redis+sentinel:// and redis+cluster:// take more)");
  }
  auto target = target_at(parts.servers, usual_port);
  if (parts.login) take_login(*parts.login, target);
  // Other programs write redis://host?db=N, too.
  const auto query = parts.behind.find(db_query);
  auto before = parts;
  if (query != std::string_view::npos) before.behind = parts.behind.substr(0, query);
  const auto path = path_behind(before, "only /db or ?db=N may follow the host");
  if (!path.empty()) target.database = database_from(path);
  if (query != std::string_view::npos) {
    const auto named = database_of_query(parts.behind.substr(query));
    if (!path.empty() && named != target.database) {
      throw bad_url("two databases are named, by /db and by ?db=N");
    }
    target.database = named;
  }
  return target;
}

Target over_socket(std::string_view rest) {
  const auto end = std::min(rest.find_first_of("?#"), rest.size());
  const auto path = rest.substr(0, end);
  const auto query = rest.substr(end);
  const auto slashes = std::min(path.find_first_not_of('/'), path.size());
  // Two slashes begin a host, perhaps with a password; three mean an empty host.
  if (slashes == 0 || slashes == 2) {
    throw bad_url("expected the absolute path of a socket after the scheme");
  }
  Target target;
  target.path = decoded(path, "the path");
  target.path.erase(0, std::min(target.path.find_first_not_of('/'), target.path.size()));
  target.path.insert(0, "/");
  if (target.path.size() == 1) throw bad_url("the socket path is missing");
  if (target.path.size() > longest_path) {
    throw bad_url("a socket path may have at most " + std::to_string(longest_path) +
                  " bytes");
  }
  if (!query.empty()) {
    if (!query.starts_with(db_query)) {
      throw bad_url(advice_on_query(query, "only ?db=N may follow the path"));
    }
    target.database = database_of_query(query);
  }
  return target;
}

}  // namespace

Target target_from(std::string_view scheme, std::string_view rest) {
  refuse_controls(rest);
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
  url += target_text(target, usual_port);
  if (target.database != 0) url += "/" + database;
  return url;
}

}  // namespace dlock::redis
