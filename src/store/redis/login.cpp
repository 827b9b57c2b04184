#include "store/redis/login.hpp"

#include <optional>

#include "store/password_file.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

std::optional<std::string> password_of(const Target& target) {
  if (!target.password_file.empty()) return password_in(target.password_file);
  return target.password;
}

bool is_ok(const Reply& reply) {
  return reply.kind == Reply::Kind::status && reply.text == "OK";
}

void require_ok(const Target& target, const Reply& reply, Failure::Kind kind,
                const std::string& what) {
  if (is_ok(reply)) return;
  if (!reply.is_error()) {
    throw Failure(Failure::Kind::unreachable,
                  target.shown() + " sent an unexpected reply to the login");
  }
  const auto text = printable(reply.text, 200);
  const auto code = reply.error_code();
  if (code == "NOAUTH") throw password_required(target.shown(), target.password_options);
  if (code == "NOPERM" || code == "DENIED") {
    throw Failure(Failure::Kind::rejected, target.shown() + ": login refused: " + text);
  }
  // Another reader of the URL may take it for the user.
  const bool is_about_login = kind == Failure::Kind::rejected && target.is_login_alone;
  throw Failure(kind, target.shown() + ": " + what + ": " + text +
                          (is_about_login ? "; what the store's URL has before the @ is "
                                            "the password (USER:PASSWORD@)"
                                          : ""));
}

}  // namespace

Failure password_required(const std::string& server, std::string_view options) {
  return Failure(Failure::Kind::rejected,
                 server + ": password required: use " + std::string(options));
}

std::vector<std::vector<std::string>> login_commands(const Target& target) {
  std::vector<std::vector<std::string>> commands;
  if (auto password = password_of(target)) {
    auto& auth = commands.emplace_back();
    auth.emplace_back("AUTH");
    if (!target.user.empty()) auth.push_back(target.user);
    auth.push_back(std::move(*password));
  } else if (!target.user.empty()) {
    // Otherwise the commands would run as the default user.
    throw Failure(Failure::Kind::misconfigured,
                  target.shown() + ": no password for user '" +
                      printable(target.user, 200) + "': use " +
                      std::string(target.password_options));
  }
  if (target.database != 0) {
    commands.push_back({"SELECT", std::to_string(target.database)});
  }
  return commands;
}

void check_login(const Target& target, const std::vector<Reply>& replies) {
  const bool has_auth = target.password || !target.password_file.empty();
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (i == 0 && has_auth) {
      require_ok(target, replies[i], Failure::Kind::rejected, "login refused");
    } else {
      require_ok(target, replies[i], Failure::Kind::misconfigured,
                 "no database " + std::to_string(target.database));
    }
  }
}

}  // namespace dlock::redis
