#include "store/redis/address.hpp"

#include <sys/un.h>

#include <algorithm>

#include "store/redis/url_parts.hpp"
#include "util/failure.hpp"

namespace dlock::redis {
namespace {

constexpr std::size_t longest_path = sizeof(sockaddr_un::sun_path) - 1;

Target over_tcp(std::string_view rest) {
  const auto parts = url_parts(rest, "[user[:password]@]host[:port][/db]");
  if (parts.servers.find(',') != std::string_view::npos) {
    throw bad_url(
        "only one host can be named (redis+sentinel:// and redis+cluster:// take more)");
  }
  auto target = target_at(parts.servers, usual_port);
  if (parts.login) take_login(*parts.login, target);
  if (parts.behind.find_first_of("?#") != std::string_view::npos) {
    throw bad_url("only /db may follow the host");
  }
  if (parts.behind.size() > 1) target.database = database_from(parts.behind.substr(1));
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
    constexpr std::string_view prefix = "?db=";
    if (!query.starts_with(prefix)) throw bad_url("only ?db=N may follow the path");
    target.database = database_from(query.substr(prefix.size()));
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
