#include "store/redis/redis_health.hpp"

#include <algorithm>
#include <utility>

#include "lock/lease.hpp"
#include "store/fan_out.hpp"
#include "store/redis/redis_connection.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

using std::chrono::microseconds;
using Kind = Reply::Kind;

// --- The checks ---

// "ACL SETUSER USER RULES", quoted so that it can be pasted into a shell behind
// redis-cli, or at its prompt: the permissions for these commands, and another rule.
std::string granting(const RedisFacts& server, const std::vector<std::string>& commands,
                     const std::string& rule = "") {
  std::vector<std::string> words{"ACL", "SETUSER", server.user};
  for (const auto& command : commands) words.push_back('+' + command);
  if (!rule.empty()) words.push_back(rule);
  constexpr std::size_t longest = 2000;
  return printable_command(words, longest);
}

// A value is missing, for want of a permission.
void not_reported(const RedisFacts& server, CheckReport& say) {
  const auto& refused = server.refused_info;
  say.not_checked(refused.empty() ? "no value returned" : printable(refused, 200),
                  "grant the permission: " + granting(server, {"info", "config|get"}));
}

void reachable(const RedisFacts& server, CheckReport& say) {
  if (!server.failure || !server.was_reached || is_refusal(*server.failure)) {
    return judge_reachable({server}, 1, "bind, protected-mode", say);
  }
  say.error(server.failure->what(),
            "the server replied at first: check what keeps it busy (SLOWLOG GET, its "
            "log)");
}

void login(const RedisFacts& server, CheckReport& say) {
  if (server.failure) return judge_refusal(*server.failure, say);
  say.ok("user ", server.user);
}

void version(const RedisFacts& server, CheckReport& say) {
  auto text = server.said("valkey_version");
  const bool is_valkey = !text.empty() || server.said("server") == "valkey";
  if (text.empty()) text = server.said("redis_version");
  if (text.empty()) text = server.said("version");
  if (text.empty()) return not_reported(server, say);
  judge_version((is_valkey ? "Valkey " : "Redis ") + printable(text, 40),
                version_in(text) < (is_valkey ? Version{7, 2} : Version{6, 2}),
                "Redis 6.2 or later, or Valkey 7.2 or later", say);
}

void role(const RedisFacts& server, CheckReport& say) {
  if (server.said("mode") == "sentinel" || server.said("redis_mode") == "sentinel") {
    return say.error("a sentinel, which has no locks",
                     "use redis+sentinel://" + server.server +
                         "/MASTER with the name of the primary in `sentinel monitor`");
  }
  const auto role = server.said("role");
  if (role.empty()) return not_reported(server, say);
  if (role == "master") return say.ok("a primary");
  auto primary = printable(server.said("master_host"), 200);
  if (!primary.empty()) {
    primary = " of " + primary + ":" + printable(server.said("master_port"), 8);
  }
  say.error("a replica" + primary + "; replicas grant no locks",
            "name the primary in the store URL");
}

void cluster(const RedisFacts& server, CheckReport& say) {
  const auto enabled = server.said("cluster_enabled");
  const auto mode = server.said("mode");
  if (enabled.empty() && mode.empty()) return not_reported(server, say);
  if (server.is_in_cluster) return say.ok("cluster member");
  if (enabled != "1" && mode != "cluster") return say.ok("none");
  say.error("the server is a member of a cluster", "use a redis+cluster:// store URL");
}

void permissions(const RedisFacts& server, CheckReport& say) {
  const auto& commands = server.missing.of_locks;
  std::string missing = commands.empty() ? "" : "may not call " + listed(commands);
  std::string rule;
  if (server.keys_are_missing) {
    missing += commands.empty() ? "may not access" : ", and may not access";
    missing += " all keys " + server.key_prefix + "*";
    rule = '~' + server.key_prefix + '*';
  }
  judge_permissions(server.user, missing, granting(server, commands, rule), say);
}

void commands(const RedisFacts& server, CheckReport& say) {
  const bool is_for_watch = server.unknown.of_locks.empty();
  const auto& names = is_for_watch ? server.unknown.of_watch : server.unknown.of_locks;
  if (names.empty()) return;
  say.level(is_for_watch ? Finding::Level::warning : Finding::Level::error,
            (is_for_watch ? "dlock watch misses events: the server does not know "
                          : "the server does not know ") +
                listed(names) + " (renamed or disabled, or not forwarded by a proxy)",
            "remove the server's rename-command for it, or use a server that has this "
            "command, without a proxy");
}

void watch(const RedisFacts& server, CheckReport& say) {
  const auto& missing = server.missing.of_watch;
  if (missing.empty()) return;
  const auto channels = server.key_prefix + "*";
  say.warning("dlock watch misses events: user " + server.user + " may not call " +
                  listed(missing) + ", or not on the channels " + channels,
              granting(server, missing, '&' + channels));
}

// What a server can say instead of doing its work, and what to do about it.
constexpr std::pair<std::string_view, const char*> refusals_of_work[] = {
    {"READONLY", "name the primary in the store URL"},
    {"OOM", "raise maxmemory, or remove data"},
    {"NOREPLICAS", "restore its replicas, or lower min-replicas-to-write"},
    {"MISCONF",
     "check the server's log for why it cannot save, and whether its disk is full"},
    {"LOADING", "wait until it has loaded its data"},
    {"BUSY", "stop the script that keeps it busy (SCRIPT KILL)"},
};

// Null for other errors.
const char* advice_about(std::string_view error) {
  const auto code = error.substr(0, error.find(' '));
  const auto* known = std::ranges::find(refusals_of_work, code,
                                        &std::pair<std::string_view, const char*>::first);
  return known == std::end(refusals_of_work) ? nullptr : known->second;
}

void work(const RedisFacts& server, CheckReport& say) {
  const auto& error = server.refuses_work;
  if (error) judge_work(*error, say, advice_about(*error));
}

void scripts(const RedisFacts& server, CheckReport& say) {
  if (!server.refuses_undeclared) return;
  say.error(
      "the server refuses keys that a script does not declare, such as the queue of a "
      "lock: " +
          printable(*server.refuses_undeclared, 200),
      "use a server that allows them: Redis or Valkey on dedicated nodes, not a "
      "serverless service");
}

void persistence(const RedisFacts& server, CheckReport& say) {
  const auto aof = server.said("aof_enabled");
  if (aof.empty()) return not_reported(server, say);
  if (aof != "0") {
    if (server.said("aof_last_write_status") != "err") {
      return say.ok("append-only file");
    }
    return say.warning("the last write to the append-only file failed",
                       "check the server's log, and whether its disk is full");
  }
  const auto save = server.fields.find("save");
  if (save == server.fields.end()) return not_reported(server, say);
  if (!save->second.empty()) {
    return say.info("snapshots only: a restart loses the locks since the last snapshot",
                    "set appendonly yes to keep them, or use --reclaim");
  }
  if (server.is_replaced) {
    return say.info("none: a restarted server has no vote for --max-ttl");
  }
  say.warning("none: a restart loses every lock",
              "CONFIG SET appendonly yes (and CONFIG REWRITE), or use --reclaim");
}

void eviction(const RedisFacts& server, CheckReport& say) {
  const auto policy = server.said("maxmemory_policy");
  if (policy.empty()) return not_reported(server, say);
  if (policy == "noeviction") return say.ok(policy);
  const auto shown = "maxmemory-policy " + printable(policy, 40);
  if (server.number("maxmemory") == 0) {
    return say.info(shown + " evicts nothing while maxmemory is not set",
                    "before you set maxmemory: CONFIG SET maxmemory-policy noeviction");
  }
  say.warning(shown + " can evict held locks when memory is full",
              "CONFIG SET maxmemory-policy noeviction, or use a separate server for "
              "locks");
}

void replicas(const RedisFacts& server, CheckReport& say) {
  const auto number = printable(server.said("connected_slaves"), 10);
  if (number.empty()) return not_reported(server, say);
  if (server.number("connected_slaves") == 0) return say.ok("none");
  if (server.needs_all_replicas) return say.ok(number, "; --replicas all waits for them");
  // INFO contains it only if both min-replicas settings are on.
  const bool is_asked_for = !server.said("min_slaves_good_slaves").empty();
  if (is_asked_for || server.number("min-replicas-to-write") > 0) {
    return say.ok(number, "; writes require replicas");
  }
  say.warning(number +
                  ", but min-replicas-to-write is not set: an isolated primary keeps "
                  "granting locks that its successor does not have",
              "CONFIG SET min-replicas-to-write 1");
}

// How many of the permitted connections are in use.
void clients(const RedisFacts& server, CheckReport& say) {
  // On the second one it is notified when its lease is broken.
  constexpr long long connections_of_holder = 2;
  const auto limit = server.number("maxclients");
  const auto used = server.number("connected_clients");
  if (limit <= 0 || used <= 0) return not_reported(server, say);
  const auto free = std::max(limit - used, 0LL);
  const auto shown = joined(used, " of ", limit, " connections in use, room for ", free,
                            " waiters or ", free / connections_of_holder, " holders");
  if (free < limit / 4) {
    return say.warning(shown + "; others cannot connect",
                       joined("CONFIG SET maxclients ", 4 * limit,
                              " (and raise the limit of open files, LimitNOFILE), or "
                              "close idle connections (CONFIG SET timeout)"));
  }
  const auto refused = server.number("rejected_connections");
  if (refused == 0) return say.ok(shown);
  say.info(
      joined(shown, "; the server has refused ", refused, " connections since its start"),
      "raise maxclients, or let hosts start at different times (--jitter)");
}

// How many TLS connections the server accepts at once.
void tls_connections(const RedisFacts& server, CheckReport& say) {
  // A TLS handshake takes a server about a millisecond, during which it serves no other
  // client. The shortest lease has 50 ms for a renewal (--store-timeout).
  constexpr long long most_handshakes = 50;
  const auto limit = server.number("max-new-tls-connections-per-cycle");
  if (!server.uses_tls || limit <= 0) return;  // without TLS, or before Redis 7.4
  const auto shown = joined("max-new-tls-connections-per-cycle ", limit);
  if (limit <= most_handshakes) return say.ok(shown);
  say.warning(shown + ": many new connections at once delay renewals",
              "CONFIG SET max-new-tls-connections-per-cycle 10");
}

void fences(const RedisFacts& server, CheckReport& say) {
  judge_fences(server.far_fences, say);
}

// The questions are for CONFIG GET.
constexpr Check<RedisFacts> checks[] = {
    {"reachable", reachable, "", true},
    {"login", login, "", true},
    {"version", version},
    {"role", role, "", true},
    {"cluster", cluster, "cluster-node-timeout"},
    {"permissions", permissions},
    {"commands", commands},
    {"watch", watch},
    {"work", work},
    {"scripts", scripts},
    {"persistence", persistence, "save"},
    {"eviction", eviction},
    {"replicas", replicas, "min-replicas-to-write"},
    {"clients", clients, "maxclients"},
    {"tls", tls_connections, "max-new-tls-connections-per-cycle"},
    {"fences", fences},
};

// --- The questions ---

// The places, among the arguments, of the commands that the user may not call. Before
// Redis 7.0 that needs another permission, so there are none.
constexpr const char* permissions_script = R"lua(
local missing = {}
for i, command in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(command, '[^ ]+') do words[#words + 1] = word end
  if redis.acl_check_cmd and not redis.acl_check_cmd(unpack(words)) then
    missing[#missing + 1] = i
  end
end
return missing
)lua";

// Like dlock's scripts, it uses a key that it does not declare, derived from a declared
// one.
constexpr const char* use_undeclared = "return redis.call('EXISTS', KEYS[1] .. ARGV[1])";

class RedisExaminer {
 public:
  RedisExaminer(const ExaminationOrder& order, const Target& target,
                std::span<const Permission> more, Wakeup& wakeup)
      : connection_(order.context, target), timeout_(order.timeout), wakeup_(wakeup) {
    facts.server = target.shown();
    facts.user =
        target.login.user.empty() ? "default" : printable(target.login.user, 200);
    facts.key_prefix = percent_encoded(order.name_space) + ":";
    facts.uses_tls = target.tls.has_value();
    facts.needs_all_replicas = order.url.replicas.all;
    facts.store_timeout = order.store_timeout;
    // To connect, and to ask twice: the server may have forgotten the script.
    const bool logs_in = target.login.has_password() || target.database != 0;
    facts.trips_to_renew = 3 + (target.tls ? 2 : 0) + (logs_in ? 1 : 0);
    rights_.assign(std::begin(needed_permissions), std::end(needed_permissions));
    rights_.insert(rights_.end(), more.begin(), more.end());
    std::erase_if(rights_, [](const auto& one) { return one.how == How::not_needed; });
  }

  asio::awaitable<void> examine() {
    bool is_fit = false;  // locks work, whatever follows
    try {
      co_await connection_.open(new_call());
      facts.was_reached = true;
      co_await ask_for_settings();
      co_await try_commands();
      co_await try_undeclared();
      co_await measure(facts, new_call().until, [this] { return ask_for_time(); });
      is_fit = true;
      co_await look_at_fences();
    } catch (const Failure& failure) {
      const auto fact = let_pass(failure);
      if (!is_fit) facts.failure = fact;
    }
  }

  RedisFacts facts;

 private:
  Call new_call() const { return wakeup_.within(timeout_); }

  asio::awaitable<std::vector<Reply>> ask(std::vector<Command> commands) {
    return connection_.exchange(std::move(commands), new_call());
  }

  asio::awaitable<void> ask_for_settings() {
    // HELLO needs no permission and reports what INFO may not. The protocol stays RESP2.
    std::vector<Command> asked{{"HELLO", "2"}, {"INFO"}};
    for (const auto& check : checks) {
      if (check.question.empty()) continue;
      asked.push_back({"CONFIG", "GET", std::string(check.question)});
    }
    const auto replies = co_await ask(asked);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const auto& reply = replies[i];
      const bool is_config = asked[i].front() == "CONFIG";
      if (reply.error_code() == "NOAUTH") throw failure_from(reply, facts.server);
      if (i > 0 && reply.is_error() && facts.refused_info.empty()) {
        facts.refused_info =
            joined(is_config ? "CONFIG GET" : "INFO", " was refused: ", reply.text);
      }
      if (reply.kind == Kind::string) facts.fields.merge(fields_of_info(reply.text));
      facts.fields.merge(fields_of_pairs(reply));
    }
  }

  // With a key in the namespace that no lock uses, because no name is empty.
  asio::awaitable<void> try_commands() {
    const auto key = facts.key_prefix + "{}:doctor";
    std::vector<Command> commands;
    Command asking{"EVAL", permissions_script, "1", key};
    std::vector<Permission> asked;
    for (const auto& right : rights_) {
      commands.push_back(trial_of(right, key, facts.key_prefix));
      if (right.how != How::asked) continue;
      asking.push_back(form_of(right, key, facts.key_prefix));
      asked.push_back(right);
    }
    commands.push_back(std::move(asking));
    const auto replies = co_await ask(std::move(commands));
    for (std::size_t i = 0; i < rights_.size(); ++i) {
      const auto& right = rights_[i];
      if (unknown_command_in(replies[i])) {
        facts.unknown.add(right, shown_name(right));
      } else if (right.how != How::asked) {
        note_rights(right, right.how == How::tried ? replies[i] : replies.back());
      }
    }
    for (const auto& place : replies.back().elements) {
      const auto number = static_cast<std::size_t>(place.integer) - 1;
      if (number >= asked.size()) continue;
      // Without permission for the key these are refused as well.
      const bool is_for_keys = !asked[number].is_for_watch && facts.keys_are_missing;
      if (!is_for_keys) facts.missing.add(asked[number], acl_name(asked[number]));
    }
  }

  void note_rights(const Permission& right, const Reply& reply) {
    const auto denial = denial_of(reply);
    if (denial == Denial::command) facts.missing.add(right, acl_name(right));
    if (denial == Denial::keys) facts.keys_are_missing = true;
    // Not whether the arguments of a trial are wrong.
    const bool refuses_work = reply.is_error() && advice_about(reply.text) != nullptr;
    if (refuses_work && !facts.refuses_work) facts.refuses_work = reply.text;
  }

  // Compared with the same script with a declared key: if that also fails, there is
  // another reason. Both keys are in the same slot of a cluster.
  asio::awaitable<void> try_undeclared() {
    const auto key = facts.key_prefix + "{:doctor}";
    std::vector<Command> commands;
    for (const char* end : {"", ":q"}) {
      commands.push_back({"EVAL", use_undeclared, "1", key, end});
    }
    const auto replies = co_await ask(std::move(commands));
    facts.refuses_undeclared = undeclared_refused(replies[0], replies[1]);
  }

  asio::awaitable<void> ask_for_time() {
    const auto before = wall_now();
    const auto replies = co_await ask(alone(words_of("TIME")));
    const auto ours = (before + wall_now()) / 2;
    const auto& time = replies.front().elements;
    if (time.size() != 2) co_return;
    const auto seconds = number_in<std::uint32_t>(time[0].text);
    const auto rest = number_in<std::uint32_t>(time[1].text);
    if (!seconds || !rest) co_return;
    facts.clock_ahead = std::chrono::seconds(*seconds) + microseconds(*rest) - ours;
  }

  // The counters of the locks, as far as they can be read within the budget.
  asio::awaitable<void> look_at_fences() {
    constexpr int most_scans = 100;  // enough for 100,000 keys
    const auto call = new_call();
    const auto plausible = greatest_plausible_fence(
        wall_now() + facts.clock_ahead.value_or(microseconds(0)), {});
    std::string cursor = "0";
    for (int step = 0; step < most_scans && !call.is_over(); ++step) {
      const auto pattern = facts.key_prefix + "{*}:s";
      Command scan{"SCAN", std::move(cursor), "MATCH", pattern, "COUNT", "1000"};
      const auto found = co_await connection_.exchange(alone(std::move(scan)), call);
      const auto& reply = found.front();
      if (reply.kind != Kind::array || reply.elements.size() != 2) co_return;
      const auto& keys = reply.elements[1].elements;
      std::vector<Command> commands;
      for (const auto& key : keys) commands.push_back({"HGET", key.text, "fence"});
      std::vector<Reply> fences;
      if (!keys.empty()) {
        fences = co_await connection_.exchange(std::move(commands), call);
      }
      for (std::size_t i = 0; i < fences.size(); ++i) {
        const auto number = number_in<std::uint64_t>(fences[i].text);
        if (fences[i].kind != Kind::string) continue;
        if (number && *number <= plausible.number) continue;
        facts.far_fences.emplace_back(keys[i].text, fences[i].text);
      }
      cursor = reply.elements[0].text;
      if (cursor == "0") co_return;
    }
  }

  RedisConnection connection_;
  milliseconds timeout_;
  std::vector<Permission> rights_;
  Wakeup& wakeup_;
};

}  // namespace

long long RedisFacts::number(std::string_view name) const {
  constexpr long long greatest = 1'000'000'000'000;  // that is plausible
  return std::min(number_in<long long>(said(name)).value_or(0), greatest);
}

Denial denial_of(const Reply& reply) {
  if (reply.error_code() != "NOPERM") return Denial::none;
  const auto has = [&](const char* words) {
    return reply.text.find(words) != std::string::npos;
  };
  return !has("run the") && has("key") ? Denial::keys : Denial::command;
}

std::optional<std::string> undeclared_refused(const Reply& declared,
                                              const Reply& undeclared) {
  if (declared.is_error() || !undeclared.is_error()) return std::nullopt;
  if (denial_of(undeclared) != Denial::none) return std::nullopt;
  return undeclared.text;
}

asio::awaitable<std::vector<RedisFacts>> facts_of_all(const ExaminationOrder& order,
                                                      std::vector<Target> targets,
                                                      std::span<const Permission> more) {
  const auto count = targets.size();
  const auto ask = [order, targets = std::move(targets), more](
                       std::size_t number, Wakeup& own) -> asio::awaitable<RedisFacts> {
    RedisExaminer examiner(order, targets[number], more, own);
    co_await examiner.examine();
    co_return std::move(examiner.facts);
  };
  co_return co_await ask_all<RedisFacts>(order.context, count, ask, order.wakeup);
}

Examination examination_of(const RedisFacts& facts) { return judged(checks, facts); }

void add_examinations_of(const std::vector<RedisFacts>& servers,
                         Examination& examination) {
  auto& findings = examination.findings;
  for (const auto& server : servers) {
    auto one = examination_of(server);
    examination.round_trip = std::max(examination.round_trip, one.round_trip);
    examination.smallest_ttl = std::max(examination.smallest_ttl, one.smallest_ttl);
    for (auto& found : one.findings) {
      const auto same = std::ranges::find(findings, found.check, &Finding::check);
      if (found.level > Finding::Level::info) {
        found.message = server.server + ": " + found.message;
      }
      if (same == findings.end()) {
        findings.push_back(std::move(found));
      } else if (found.level > same->level) {
        *same = std::move(found);
      }
    }
  }
}

}  // namespace dlock::redis
