#include "store/redis/target.hpp"

#include "net/dial.hpp"
#include "store/url_advice.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

void require_ok(const Target& target, const Reply& reply, Failure::Kind kind,
                const std::string& what, const std::string& remark = "") {
  if (reply.kind == Reply::Kind::status && reply.text == "OK") return;
  if (!reply.is_error()) {
    throw Failure::unreachable(target.shown() + " sent an unexpected reply to the login");
  }
  const auto text = printable(reply.text, 200);
  const auto code = reply.error_code();
  if (code == "NOAUTH") throw password_required(target.shown(), target.password_options);
  if (code == "NOPERM" || code == "DENIED") {
    throw Failure::rejected(target.shown() + ": login refused: " + text);
  }
  auto why = target.shown() + ": " + what + ": " + text + remark;
  // Another reader of the URL may take it for the user, which it is in the URL that the
  // command of a run gets.
  if (kind == Failure::Kind::rejected && target.login.alone == Login::Alone::password) {
    why +=
        "; what the store's URL has before the @ was taken for the password; if it is "
        "the user, the password is missing (USER:PASSWORD@, " +
        std::string(target.password_options) + ")";
  }
  throw Failure(kind, why);
}

}  // namespace

Target Target::at(const ServerAddress& announced) const {
  Target other = *this;
  other.host = announced.host;
  other.port = announced.port;
  const bool is_name = !net::endpoint_of_literal(announced.host, announced.port);
  if (other.tls && is_name) other.tls->name.clear();
  return other;
}

Failure Target::with_origin(const Failure& failure) const {
  const bool is_announced =
      !announced_by.empty() && failure.kind() == Failure::Kind::unreachable;
  if (!is_announced) return failure;
  if (mapped_from) {
    std::string text = failure.what();
    const auto name = shown();
    const auto at = text.find(name);
    const auto end = at == std::string::npos ? text.size() : at + name.size();
    text.insert(end, " (" + mapped_from->shown() + " by --address-map)");
    return Failure(failure.kind(), text);
  }
  return Failure(failure.kind(),
                 failure.what() + (", the address that " + std::string(announced_by) +
                                   " announce (--address-map if it differs here)"));
}

std::string Target::shown() const {
  return path.empty() ? address().shown() : printable(path, 200);
}

Target login_target(const StoreUrl& url) {
  Target target;
  target.path = url.path;
  target.tls = url.tls;
  target.login = url.login;
  target.database = url.database;
  return target;
}

std::vector<Target> targets_of(const StoreUrl& url) {
  auto target = login_target(url);
  std::vector<Target> targets;
  for (const auto& server : url.servers) {
    target.host = server.host;
    target.port = server.port;
    targets.push_back(target);
  }
  if (targets.empty()) targets.push_back(std::move(target));
  return targets;
}

std::vector<Target> sentinels_of(const StoreUrl& url) {
  auto named = url;
  named.login = url.sentinel_login;
  named.tls = url.sentinel_tls;
  named.database = 0;
  auto sentinels = targets_of(named);
  for (auto& sentinel : sentinels) {
    sentinel.password_options = "--sentinel-password-file or DLOCK_SENTINEL_PASSWORD";
  }
  return sentinels;
}

std::vector<std::vector<std::string>> login_commands(
    const Target& target, const std::optional<std::string>& password) {
  std::vector<std::vector<std::string>> commands;
  if (password) {
    auto& auth = commands.emplace_back();
    auth.emplace_back("AUTH");
    if (!target.login.user.empty()) auth.push_back(target.login.user);
    auth.push_back(*password);
  } else if (!target.login.user.empty()) {
    // Otherwise the commands would run as the default user.
    throw Failure::misconfigured(
        target.shown() + ": no password for user '" + printable(target.login.user, 200) +
        "': use " + std::string(target.password_options) + password_of_run_outside());
  }
  if (target.database != 0) {
    commands.push_back({"SELECT", std::to_string(target.database)});
  }
  return commands;
}

void check_login(const Target& target, const std::optional<std::string>& password,
                 const std::vector<Reply>& replies) {
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (i == 0 && password) {
      require_ok(target, replies[i], Failure::Kind::rejected, "login refused",
                 remark_on_password(password));
    } else {
      require_ok(target, replies[i], Failure::Kind::misconfigured,
                 "no database " + std::to_string(target.database));
    }
  }
}

std::optional<milliseconds> milliseconds_from(const std::string& text) {
  constexpr std::int64_t day = 86'400'000;
  const auto value = number_in<std::int64_t>(text);
  if (!value || *value <= 0 || *value > day) return std::nullopt;
  return milliseconds(*value);
}

}  // namespace dlock::redis
