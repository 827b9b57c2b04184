#include "store/redis/login.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "net/messages.hpp"
#include "util/failure.hpp"
#include "util/fd.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

// Far more than any password, and than any token that is used as one.
constexpr std::size_t longest_password = 64u << 10;

Failure unusable(const std::string& file, Failure::Kind kind, const std::string& why) {
  return Failure(kind, "password file " + printable(file, 200) + ": " + why);
}

std::string first_line_of(const std::string& file) {
  // Not to wait for the writer of a pipe: what it is is asked afterwards.
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) throw failure_of(errno, "password file " + printable(file, 200));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw unusable(file, Failure::Kind::misconfigured, "not a regular file");
  }
  // The group may be the one that a daemon runs as.
  if ((status.st_mode & (S_IROTH | S_IWOTH)) != 0) {
    throw unusable(file, Failure::Kind::rejected,
                   "others can read or write it (chmod o-rw)");
  }
  std::string text(longest_password + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const auto got = ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw failure_of(errno, "password file " + printable(file, 200));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > longest_password) {
    throw unusable(file, Failure::Kind::misconfigured, "larger than 64 KiB");
  }
  text.resize(std::min(size, text.find('\n')));
  if (text.empty()) {
    throw unusable(file, Failure::Kind::misconfigured, "its first line is empty");
  }
  return text;
}

std::optional<std::string> password_of(const Target& target) {
  if (!target.password_file.empty()) return first_line_of(target.password_file);
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
                  target.shown() + " answers its login with something else");
  }
  const auto text = printable(reply.text, 200);
  // This one comes unasked, before the server has looked at the login.
  if (reply.text.find("max number of clients") != std::string::npos) {
    throw net::cannot_reach(target.shown(), text);
  }
  const auto code = reply.error_code();
  if (code == "NOAUTH") throw wants_password(target.shown(), target.password_options);
  if (code == "NOPERM" || code == "DENIED") {
    throw Failure(Failure::Kind::rejected, target.shown() + ": login refused: " + text);
  }
  throw Failure(kind, target.shown() + ": " + what + ": " + text);
}

}  // namespace

Failure wants_password(const std::string& server, std::string_view options) {
  return Failure(Failure::Kind::rejected,
                 server + ": it wants a password: " + std::string(options));
}

std::vector<std::vector<std::string>> login_commands(const Target& target) {
  std::vector<std::vector<std::string>> commands;
  if (auto password = password_of(target)) {
    auto& auth = commands.emplace_back();
    auth.emplace_back("AUTH");
    if (!target.user.empty()) auth.push_back(target.user);
    auth.push_back(std::move(*password));
  } else if (!target.user.empty()) {
    // Going on would be as the default user.
    throw Failure(Failure::Kind::misconfigured,
                  target.shown() + ": user '" + printable(target.user, 200) +
                      "' without a password (" + std::string(target.password_options) +
                      ")");
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
