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

// 0 for anything that is not a number of a plausible size.
long long number_field(const Fields& fields, std::string_view name) {
  const std::string text = field(fields, name);
  std::string_view unread = text;
  constexpr long long greatest = 1'000'000'000'000;
  const auto number = take_number<long long>(unread).value_or(0);
  return number > greatest ? 0 : number;
}

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

// The names of those that locks need, or that only dlock watch needs.
std::vector<std::string> names_of(const std::vector<Permission>& rights, bool for_watch,
                                  std::string (*name)(const Permission&)) {
  std::vector<std::string> names;
  for (const auto& right : rights) {
    if (right.is_for_watch == for_watch) names.push_back(name(right));
  }
  return names;
}

// A value is missing, for want of a permission.
void not_reported(const RedisFacts& server, CheckReport& say) {
  const bool is_info = server.info.empty();
  const auto said = (is_info ? server.info_refused : server.config_refused)
                        .value_or("no value returned");
  say.not_checked((is_info ? "INFO was refused: " : "CONFIG GET was refused: ") +
                      printable(said, 200),
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
  if (server.failure) return judge_refusal(*server.failure, "", say);
  if (!server.no_login) return say.ok("user ", server.user);
  say.error("the server requires a login: " + printable(*server.no_login, 200),
            "set a password (--password-file or DLOCK_PASSWORD), and a user (--user) "
            "unless it is the default user");
}

void sentinel(const RedisFacts& server, CheckReport& say) {
  if (field(server.hello, "mode") != "sentinel" &&
      field(server.info, "redis_mode") != "sentinel") {
    return;
  }
  say.error("a sentinel, which has no locks",
            "use redis+sentinel://" + server.server +
                "/MASTER with the name of the primary in `sentinel monitor`");
}

void version(const RedisFacts& server, CheckReport& say) {
  auto text = field(server.info, "valkey_version");
  const bool is_valkey = !text.empty() || field(server.hello, "server") == "valkey";
  if (text.empty()) text = field(server.info, "redis_version");
  if (text.empty()) text = field(server.hello, "version");
  if (text.empty()) return not_reported(server, say);
  std::string_view unread = text;
  const auto major = take_number<int>(unread).value_or(0);
  if (unread.starts_with('.')) unread.remove_prefix(1);
  const std::pair version(major, take_number<int>(unread).value_or(0));
  judge_version((is_valkey ? "Valkey " : "Redis ") + printable(text, 40),
                version < (is_valkey ? std::pair(7, 2) : std::pair(6, 2)),
                "Redis 6.2 or later, or Valkey 7.2 or later", say);
}

bool refuses_with(const RedisFacts& server, std::string_view code) {
  return server.refuses_work && server.refuses_work->starts_with(code);
}

void role(const RedisFacts& server, CheckReport& say) {
  auto role = field(server.info, "role");
  if (role.empty()) role = field(server.hello, "role");
  if (role.empty() && refuses_with(server, "READONLY")) role = "replica";
  if (role.empty()) return not_reported(server, say);
  if (role == "master") return say.ok("a primary");
  auto primary = printable(field(server.info, "master_host"), 200);
  if (!primary.empty()) {
    primary = " of " + primary + ":" + printable(field(server.info, "master_port"), 8);
  }
  say.error("a replica" + primary + "; replicas grant no locks",
            "name the primary in the store URL");
}

void cluster(const RedisFacts& server, CheckReport& say) {
  const auto enabled = field(server.info, "cluster_enabled");
  const auto mode = field(server.hello, "mode");
  if (enabled.empty() && mode.empty()) return not_reported(server, say);
  if (server.is_in_cluster) return say.ok("cluster member");
  if (enabled != "1" && mode != "cluster") return say.ok("none");
  say.error("the server is a member of a cluster", "use a redis+cluster:// store URL");
}

void permissions(const RedisFacts& server, CheckReport& say) {
  const auto commands = names_of(server.missing, false, acl_name);
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
  auto unknown = names_of(server.unknown, false, shown_name);
  const bool is_for_watch = unknown.empty();
  if (is_for_watch) unknown = names_of(server.unknown, true, shown_name);
  if (unknown.empty()) return;
  say.level(is_for_watch ? Finding::Level::warning : Finding::Level::error,
            (is_for_watch ? "dlock watch misses events: " : "") +
                ("the server does not know " + listed(unknown)) +
                " (renamed or disabled, or not forwarded by a proxy)",
            "remove the server's rename-command for it, or use a server that has this "
            "command, without a proxy");
}

void watch(const RedisFacts& server, CheckReport& say) {
  const auto missing = names_of(server.missing, true, acl_name);
  if (missing.empty()) return;
  const auto channels = server.key_prefix + "*";
  say.warning("dlock watch misses events: user " + server.user + " may not call " +
                  listed(missing) + ", or not on the channels " + channels,
              granting(server, missing, '&' + channels));
}

// What a server can say instead of doing its work, and what to do about it; nothing where
// the role is the cause.
constexpr std::pair<std::string_view, const char*> refusals_of_work[] = {
    {"READONLY", nullptr},
    {"MASTERDOWN", nullptr},
    {"MOVED", nullptr},
    {"CLUSTERDOWN", nullptr},
    {"OOM", "raise maxmemory, or remove data"},
    {"NOREPLICAS", "restore its replicas, or lower min-replicas-to-write"},
    {"MISCONF",
     "check the server's log for why it cannot save, and whether its disk is full"},
    {"LOADING", "wait until it has loaded its data"},
    {"BUSY", "stop the script that keeps it busy (SCRIPT KILL)"},
};

void work(const RedisFacts& server, CheckReport& say) {
  for (const auto& [code, advice] : refusals_of_work) {
    if (advice == nullptr || !refuses_with(server, code)) continue;
    return judge_work(*server.refuses_work, say, advice);
  }
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
  const auto aof = field(server.info, "aof_enabled");
  if (aof.empty()) return not_reported(server, say);
  if (aof != "0") {
    if (field(server.info, "aof_last_write_status") != "err") {
      return say.ok("append-only file");
    }
    return say.warning("the last write to the append-only file failed",
                       "check the server's log, and whether its disk is full");
  }
  const auto save = server.config.find("save");
  if (save == server.config.end()) return not_reported(server, say);
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
  const auto policy = field(server.info, "maxmemory_policy");
  if (policy.empty()) return not_reported(server, say);
  if (policy == "noeviction") return say.ok(policy);
  const auto shown = "maxmemory-policy " + printable(policy, 40);
  if (number_field(server.info, "maxmemory") == 0) {
    return say.info(shown + " evicts nothing while maxmemory is not set",
                    "before you set maxmemory: CONFIG SET maxmemory-policy noeviction");
  }
  say.warning(shown + " can evict held locks when memory is full",
              "CONFIG SET maxmemory-policy noeviction, or use a separate server for "
              "locks");
}

void replicas(const RedisFacts& server, CheckReport& say) {
  const auto number = printable(field(server.info, "connected_slaves"), 10);
  if (number.empty()) return not_reported(server, say);
  if (number_field(server.info, "connected_slaves") == 0) return say.ok("none");
  // INFO contains it only if both min-replicas settings are on.
  const bool is_asked_for = server.info.count("min_slaves_good_slaves") > 0;
  if (is_asked_for || number_field(server.config, "min-replicas-to-write") > 0) {
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
  const auto limit = std::max(number_field(server.info, "maxclients"),
                              number_field(server.config, "maxclients"));
  const auto used = number_field(server.info, "connected_clients");
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
  const auto refused = number_field(server.info, "rejected_connections");
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
  const auto limit = number_field(server.config, "max-new-tls-connections-per-cycle");
  if (!server.uses_tls || limit <= 0) return;  // without TLS, or before Redis 7.4
  const auto shown = joined("max-new-tls-connections-per-cycle ", limit);
  if (limit <= most_handshakes) return say.ok(shown);
  say.warning(shown + ": many new connections at once delay renewals",
              "CONFIG SET max-new-tls-connections-per-cycle 10");
}

void fences(const RedisFacts& server, CheckReport& say) {
  judge_fences(server.far_fences, say);
}

// The questions are INFO and CONFIG GET.
constexpr Check<RedisFacts> checks[] = {
    {"reachable", reachable, "", true},
    {"login", login, "", true},
    {"role", sentinel, "INFO server", true},
    {"version", version, "INFO server"},
    {"role", role, "INFO replication"},
    {"cluster", cluster, "INFO cluster,CONFIG GET cluster-node-timeout"},
    {"permissions", permissions},
    {"commands", commands},
    {"watch", watch},
    {"work", work},
    {"scripts", scripts},
    {"persistence", persistence, "INFO persistence,CONFIG GET save"},
    {"eviction", eviction, "INFO memory"},
    {"replicas", replicas, "INFO replication,CONFIG GET min-replicas-to-write"},
    {"clients", clients, "INFO clients,INFO stats,CONFIG GET maxclients"},
    {"tls", tls_connections, "CONFIG GET max-new-tls-connections-per-cycle"},
    {"fences", fences},
};

// --- The questions ---

// Each once, and in front of them HELLO, which needs no permission and reports what INFO
// may not. The protocol stays RESP2.
std::vector<Command> questions() {
  std::vector<Command> all{{"HELLO", "2"}};
  for (const auto& check : checks) {
    if (check.question.empty()) continue;
    for (const auto one : split(check.question, ',')) {
      auto question = words_of(one);
      if (std::ranges::count(all, question) == 0) all.push_back(std::move(question));
    }
  }
  return all;
}

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
  RedisExaminer(asio::io_context& context, const Target& target,
                const ExaminationOrder& order, std::span<const Permission> more,
                Wakeup& wakeup)
      : connection_(context, target), timeout_(order.timeout), wakeup_(wakeup) {
    facts.server = target.shown();
    facts.user =
        target.login.user.empty() ? "default" : printable(target.login.user, 200);
    facts.key_prefix = percent_encoded(order.name_space) + ":";
    facts.uses_tls = target.tls.has_value();
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
      if (facts.no_login) co_return;
      co_await try_commands();
      co_await try_undeclared();
      co_await measure(facts, new_call().until, [this] { return ask_for_time(); });
      is_fit = true;
      co_await look_at_fences();
    } catch (const Failure& failure) {
      // A shortage on this machine says nothing about the server.
      if (failure.kind() == Failure::Kind::exhausted) throw;
      if (!is_fit) facts.failure = failure;
    }
  }

  RedisFacts facts;

 private:
  Call new_call() const { return wakeup_.within(timeout_); }

  asio::awaitable<std::vector<Reply>> ask(std::vector<Command> commands) {
    return connection_.exchange(std::move(commands), new_call());
  }

  asio::awaitable<void> ask_for_settings() {
    const auto asked = questions();
    const auto replies = co_await ask(asked);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const auto& reply = replies[i];
      const bool is_config = asked[i].front() == "CONFIG";
      if (!is_config && reply.error_code() == "NOAUTH") facts.no_login = reply.text;
      if (i > 0 && reply.is_error()) {
        (is_config ? facts.config_refused : facts.info_refused) = reply.text;
      }
      if (reply.kind == Kind::string) facts.info.merge(fields_of_info(reply.text));
      (is_config ? facts.config : facts.hello).merge(fields_of_pairs(reply));
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
      if (unknown_command_in(replies[i]))
        facts.unknown.push_back(right);
      else if (right.how == How::tried)
        note_rights(right, replies[i]);
      if (right.how == How::known) note_rights(right, replies.back());
    }
    for (const auto& place : replies.back().elements) {
      const auto number = static_cast<std::size_t>(place.integer) - 1;
      if (number >= asked.size()) continue;
      // Without permission for the key these are refused as well.
      const bool is_for_keys = !asked[number].is_for_watch && facts.keys_are_missing;
      if (!is_for_keys) facts.missing.push_back(asked[number]);
    }
  }

  void note_rights(const Permission& right, const Reply& reply) {
    const auto denial = denial_of(reply);
    if (denial == Denial::command) facts.missing.push_back(right);
    if (denial == Denial::keys) facts.keys_are_missing = true;
    // Not whether the arguments of a trial are wrong.
    const bool refuses_work = std::ranges::any_of(
        refusals_of_work,
        [&](const auto& refusal) { return reply.error_code() == refusal.first; });
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

  // The fastest reply gives the most accurate time.
  asio::awaitable<void> ask_for_time() {
    const auto wall = wall_now();
    const auto began = Clock::now();
    const auto replies = co_await ask(alone(words_of("TIME")));
    const auto took = Clock::now() - began;
    const auto& time = replies.front().elements;
    if (took >= fastest_ || time.size() != 2) co_return;
    fastest_ = took;
    const auto seconds = number_in<std::int64_t>(time[0].text).value_or(0);
    const auto rest = number_in<std::int64_t>(time[1].text).value_or(0);
    constexpr std::int64_t latest = std::int64_t{1} << 40;  // far beyond any clock
    if (seconds <= 0 || seconds > latest || rest < 0 || rest > 1'000'000) co_return;
    const auto ours = wall + std::chrono::floor<microseconds>(took) / 2;
    facts.clock_ahead = std::chrono::seconds(seconds) + microseconds(rest) - ours;
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
  Clock::duration fastest_ = Clock::duration::max();
};

}  // namespace

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

asio::awaitable<std::vector<RedisFacts>> facts_of_all(asio::io_context& context,
                                                      std::vector<Target> targets,
                                                      const ExaminationOrder& order,
                                                      Wakeup& wakeup,
                                                      std::span<const Permission> more) {
  const auto count = targets.size();
  const auto ask = [loop = &context, targets = std::move(targets), order, more](
                       std::size_t number, Wakeup& own) -> asio::awaitable<RedisFacts> {
    RedisExaminer examiner(*loop, targets[number], order, more, own);
    co_await examiner.examine();
    co_return std::move(examiner.facts);
  };
  co_return co_await ask_all<RedisFacts>(context, count, ask, wakeup);
}

std::vector<Finding> findings_of(const RedisFacts& facts) {
  return judged(checks, facts);
}

void add_findings_of(const std::vector<RedisFacts>& servers,
                     std::vector<Finding>& findings) {
  for (const auto& server : servers) {
    for (auto& found : findings_of(server)) {
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
