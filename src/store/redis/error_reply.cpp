#include "store/redis/error_reply.hpp"

#include <algorithm>
#include <iterator>

#include "store/redis/login.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

// What the codes of errors mean to the user.
struct Meaning {
  std::string_view code;
  const char* text;
  Failure::Kind kind = Failure::Kind::unreachable;
};
constexpr Meaning meanings[] = {
    {"OOM", "the server's memory is full (maxmemory)"},
    {"MISCONF",
     "the server accepts no writes because it cannot save its data (its log says why)"},
    {"NOREPLICAS",
     "the server accepts no writes with so few replicas (min-replicas-to-write)"},
    {"READONLY", "the server is a replica, which grants no locks"},
    {"MASTERDOWN", "the server is a replica that has lost its primary"},
    {"LOADING", "the server is still loading its data"},
    {"BUSY", "the server is busy with another client's script (SCRIPT KILL stops it)"},
    {"CLUSTERDOWN", "the cluster is down: some slots are not served"},
    {"DENIED",
     "the server is in protected mode: it serves other machines only if a password or "
     "`bind` is set",
     Failure::Kind::rejected},
    {"WRONGPASS", "wrong user or password", Failure::Kind::rejected},
};

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Before Redis 7.0, the error of a script contains that of its command: "-OOM command".
const Meaning* meaning_of(const Reply& error) {
  const auto* found =
      std::find_if(std::begin(meanings), std::end(meanings), [&](const Meaning& one) {
        return error.error_code() == one.code ||
               has(error.text, ": -" + std::string(one.code) + " ");
      });
  return found == std::end(meanings) ? nullptr : found;
}

// Without arguments, which may contain a token, and without positions in a script, which
// tell users nothing: "@user_script: 3: -TEXT" up to Redis 6.2, later "TEXT script: SHA,
// on @user_script:3.".
std::string without_particulars(std::string text) {
  text.resize(std::min(text.find(", with args beginning with"), text.size()));
  const auto on = text.find(", on @user_script");
  if (on != std::string::npos) text.resize(std::min(text.rfind(" script: ", on), on));
  constexpr std::string_view at = "@user_script: ";
  if (const auto begin = text.rfind(at); begin != std::string::npos) {
    const auto end = text.find(": ", begin + at.size());
    if (end != std::string::npos) text.erase(0, end + 2);
  }
  return text;
}

bool is_about_rights(const Reply& error) {
  // Missing permissions of a script have no code: up to Redis 7.0 the user "can't", later
  // it is an "ACL failure".
  return has(error.text, "NOPERM") ||
         has(error.text, "The user executing the script can't") ||
         has(error.text, "ACL failure in script");
}

Failure unknown_command(const std::string& server, const std::string& command,
                        const std::string& said) {
  return Failure(
      Failure::Kind::misconfigured,
      server + ": the server does not know " +
          (command.empty() ? "a command that dlock needs" : command) +
          " (renamed or disabled, or not forwarded by a proxy; for a sentinel, "
          "use redis+sentinel://)" +
          detail(said));
}

}  // namespace

Failure failure_from(const Reply& error, const std::string& server) {
  const auto& text = error.text;
  const auto code = error.error_code();
  const auto said = printable(without_particulars(text), 200);
  // A client that is not logged in may send only short requests; for a longer one the
  // server sends a protocol error that mentions authentication.
  if (code == "NOAUTH" || has(text, "Authentication required") ||
      has(text, "unauthenticated")) {
    return password_required(server, Target().password_options);
  }
  if (is_about_rights(error))
    return Failure(Failure::Kind::rejected, server + ": " + said);
  if (has(text, "WRONGTYPE")) {
    return Failure(Failure::Kind::misconfigured,
                   server + ": the lock's key does not hold a lock: " + said);
  }
  if (code == "MOVED" || code == "ASK" || code == "CROSSSLOT") {
    return Failure(Failure::Kind::misconfigured,
                   server + " is a member of a cluster: use redis+cluster://");
  }
  if (const auto command = unknown_command_in(error)) {
    return unknown_command(server, *command, said);
  }
  if (const auto* meaning = meaning_of(error)) {
    return Failure(meaning->kind, server + ": " + meaning->text + " [" +
                                      std::string(meaning->code) + "]" + detail(said));
  }
  return Failure(Failure::Kind::unreachable, server + ": " + said);
}

std::optional<std::string> unknown_command_in(const Reply& reply) {
  if (!reply.is_error()) return std::nullopt;
  constexpr std::string_view forms[] = {"nknown command", "nknown Redis command",
                                        "nknown subcommand", "nsupported command"};
  for (const auto form : forms) {
    const auto at = reply.text.find(form);
    if (at == std::string::npos) continue;
    constexpr std::string_view quotes = "'`\"";
    const auto begin = reply.text.find_first_of(quotes, at);
    if (begin == std::string::npos) return "";
    const auto end = reply.text.find_first_of(quotes, begin + 1);
    return printable(reply.text.substr(begin + 1, end - begin - 1), 60);
  }
  return std::nullopt;
}

bool hides_refused_command(const Reply& reply) {
  if (!reply.is_error()) return false;
  const auto unknown = unknown_command_in(reply);
  return unknown ? unknown->empty() : is_about_rights(reply) && has(reply.text, "script");
}

}  // namespace dlock::redis
