#include "store/redis/error_reply.hpp"

#include "store/redis/login.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The arguments in such an error may contain a token.
std::string without_arguments(const std::string& text) {
  return text.substr(0, text.find(", with args beginning with"));
}

}  // namespace

Failure failure_from(const Reply& error, const std::string& server) {
  const auto& text = error.text;
  const auto code = error.error_code();
  const auto said = server + ": " + printable(text, 200);
  // A client that is not logged in may send only short requests; for a longer one the
  // server sends a protocol error that mentions authentication.
  if (code == "NOAUTH" || has(text, "Authentication required") ||
      has(text, "unauthenticated")) {
    return password_required(server, Target().password_options);
  }
  // For an error inside a script, the code is in the middle of the text, and missing
  // permissions have no code at all: up to Redis 7.0 the user "can't", later it is an
  // "ACL failure".
  if (code == "WRONGPASS" || code == "NOPERM" || has(text, "NOPERM") ||
      has(text, "The user executing the script can't") ||
      has(text, "ACL failure in script")) {
    return Failure(Failure::Kind::rejected, said);
  }
  if (has(text, "WRONGTYPE")) {
    return Failure(
        Failure::Kind::misconfigured,
        server + ": the lock's key does not hold a lock: " + printable(text, 100));
  }
  if (code == "MOVED" || code == "ASK" || code == "CROSSSLOT") {
    return Failure(Failure::Kind::misconfigured,
                   server + " is a member of a cluster: use redis+cluster://");
  }
  if (has(text, "unknown command") || has(text, "Unknown Redis command") ||
      has(text, "nknown subcommand")) {
    return Failure(Failure::Kind::misconfigured,
                   server + ": " + printable(without_arguments(text), 200) +
                       " (dlock needs Redis 6.2 or later, or Valkey 7.2 or later; for a "
                       "sentinel, use redis+sentinel://)");
  }
  return Failure(Failure::Kind::unreachable, said);
}

}  // namespace dlock::redis
