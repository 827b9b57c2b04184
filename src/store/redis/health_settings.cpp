#include "store/redis/health_settings.hpp"

#include <algorithm>
#include <charconv>

#include "util/text.hpp"

namespace dlock::redis {
namespace {

using Level = Finding::Level;

// A holder has a second connection, on which it is notified when its lease is broken.
constexpr long long connections_of_holder = 2;

// A TLS handshake takes a server about a millisecond, during which it serves nobody else.
// The shortest lease has 50 ms for a renewal (--store-timeout).
constexpr long long most_tls_handshakes = 50;

// 0 for anything that is not a number of a plausible size.
long long number_in(const Fields& fields, std::string_view name) {
  const auto text = field(fields, name);
  constexpr long long greatest = 1'000'000'000'000;
  long long number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number > greatest ? 0 : number;
}

}  // namespace

std::string granting(const std::string& user, const std::vector<std::string>& rules) {
  std::vector<std::string> words{"ACL", "SETUSER", user};
  words.insert(words.end(), rules.begin(), rules.end());
  constexpr std::size_t longest = 2000;
  return printable_command(words, longest);
}

std::string field(const Fields& fields, std::string_view name) {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

Finding not_checked(const char* check, const Facts& facts) {
  const bool is_info = facts.info.empty();
  const auto said =
      (is_info ? facts.info_refused : facts.config_refused).value_or("no value returned");
  return {check, Level::info,
          std::string("not checked: ") + (is_info ? "INFO" : "CONFIG GET") +
              " was refused: " + printable(said, 200),
          "grant the permission: " + granting(facts.user, {"+info", "+config|get"}),
          false};
}

Finding persistence(const Facts& facts) {
  const auto aof = field(facts.info, "aof_enabled");
  if (aof.empty()) return not_checked("persistence", facts);
  if (aof != "0") {
    if (field(facts.info, "aof_last_write_status") == "err") {
      return {"persistence", Level::warning,
              "the last write to the append-only file failed",
              "check the server's log, and whether its disk is full"};
    }
    return {"persistence", Level::ok, "append-only file", ""};
  }
  const auto save = facts.config.find("save");
  if (save == facts.config.end()) return not_checked("persistence", facts);
  if (!save->second.empty()) {
    return {"persistence", Level::info,
            "snapshots only: a restart loses the locks since the last snapshot",
            "set appendonly yes to keep them, or use --reclaim"};
  }
  return {"persistence", Level::warning, "none: a restart loses every lock",
          "CONFIG SET appendonly yes (and CONFIG REWRITE), or use --reclaim"};
}

Finding eviction(const Facts& facts) {
  const auto policy = field(facts.info, "maxmemory_policy");
  if (policy.empty()) return not_checked("eviction", facts);
  if (policy == "noeviction") return {"eviction", Level::ok, policy, ""};
  const auto shown = "maxmemory-policy " + printable(policy, 40);
  if (number_in(facts.info, "maxmemory") == 0) {
    return {"eviction", Level::info, shown + " evicts nothing while maxmemory is not set",
            "before you set maxmemory: CONFIG SET maxmemory-policy noeviction"};
  }
  return {"eviction", Level::warning, shown + " can evict held locks when memory is full",
          "CONFIG SET maxmemory-policy noeviction, or use a separate server for locks"};
}

Finding replicas(const Facts& facts) {
  const auto connected = field(facts.info, "connected_slaves");
  if (connected.empty()) return not_checked("replicas", facts);
  if (number_in(facts.info, "connected_slaves") == 0) {
    return {"replicas", Level::ok, "none", ""};
  }
  // INFO contains it only if both min-replicas settings are on.
  const bool is_asked_for = facts.info.count("min_slaves_good_slaves") > 0;
  const auto number = printable(connected, 10);
  if (is_asked_for || number_in(facts.config, "min-replicas-to-write") > 0) {
    return {"replicas", Level::ok, number + "; writes require replicas", ""};
  }
  return {"replicas", Level::warning,
          number +
              ", but min-replicas-to-write is not set: an isolated primary keeps "
              "granting locks that its successor does not have",
          "CONFIG SET min-replicas-to-write 1"};
}

Finding clients(const Facts& facts) {
  const auto limit = std::max(number_in(facts.info, "maxclients"),
                              number_in(facts.config, "maxclients"));
  const auto used = number_in(facts.info, "connected_clients");
  if (limit <= 0 || used <= 0) return not_checked("clients", facts);
  const auto free = std::max(limit - used, 0LL);
  const auto shown =
      std::to_string(used) + " of " + std::to_string(limit) + " connections in use";
  const auto room = ", room for " + std::to_string(free) + " waiters or " +
                    std::to_string(free / connections_of_holder) + " holders";
  if (free < limit / 4) {
    return {"clients", Level::warning, shown + room + "; others cannot connect",
            "CONFIG SET maxclients " + std::to_string(4 * limit) +
                " (and raise the limit of open files, LimitNOFILE), or close idle "
                "connections (CONFIG SET timeout)"};
  }
  const auto refused = number_in(facts.info, "rejected_connections");
  if (refused > 0) {
    return {"clients", Level::info,
            shown + room + "; the server has refused " + std::to_string(refused) +
                " connections since its start",
            "raise maxclients, or let hosts start at different times (--jitter)"};
  }
  return {"clients", Level::ok, shown + room, ""};
}

std::optional<Finding> tls_connections(const Facts& facts) {
  const auto limit = number_in(facts.config, "max-new-tls-connections-per-cycle");
  if (!facts.uses_tls || limit <= 0) return std::nullopt;
  const auto shown = "max-new-tls-connections-per-cycle " + std::to_string(limit);
  if (limit <= most_tls_handshakes) return Finding{"tls", Level::ok, shown, ""};
  return Finding{"tls", Level::warning,
                 shown + ": many new connections at once delay renewals",
                 "CONFIG SET max-new-tls-connections-per-cycle 10"};
}

}  // namespace dlock::redis
