#include "store/etcd/plan.hpp"

#include <utility>

#include "store/etcd/etcd_store.hpp"

namespace dlock::etcd {

namespace {

constexpr std::uint16_t usual_port = 2379;

}  // namespace

Plan Plan::parsed(std::string_view scheme, const std::string& rest) {
  refuse_controls(rest);
  const auto parts = url_parts(rest, "[user[:password]@]host[:port],host[:port]...");
  Plan plan;
  if (parts.login) {
    auto login = login_from(*parts.login);
    if (login.user.empty()) throw bad_url("a password for etcd requires a user");
    plan.access.is_user_alone = !login.has_colon;
    plan.access.user = std::move(login.user);
    plan.access.password = std::move(login.password);
  }
  plan.access.members = servers_from(parts.servers, usual_port, "server");
  const std::string allowed = "nothing may follow the servers";
  if (!path_behind(parts, allowed).empty()) throw bad_url(allowed);
  if (scheme == "etcds") plan.access.tls.emplace();
  return plan;
}

void Plan::set(const Credentials& credentials) {
  if (credentials.user) {
    access.user = *credentials.user;
    access.is_user_alone = false;
  }
  if (!credentials.password_file.empty()) {
    access.password_file = credentials.password_file;
    access.password.reset();
  } else if (credentials.password) {
    access.password = credentials.password;
  }
  if (access.tls) access.tls = credentials.tls;
}

std::string Plan::url() const {
  std::string url = access.tls ? "etcds://" : "etcd://";
  const bool has_password = access.password || !access.password_file.empty();
  const bool is_unsure = access.is_user_alone && !has_password;
  if (!access.user.empty() && !is_unsure) url += dlock::encoded(access.user) + "@";
  return url + servers_text(access.members, usual_port);
}

std::unique_ptr<Store> open(const Plan& plan, milliseconds timeout,
                            asio::io_context& context) {
  return store_of(plan.url(), plan.access, timeout, context);
}

}  // namespace dlock::etcd
