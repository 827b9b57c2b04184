#include "store/redis/redis_facts.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "lock/lease.hpp"
#include "store/checks.hpp"
#include "store/fan_out.hpp"
#include "store/redis/redis_connection.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

using std::chrono::microseconds;
using Kind = Reply::Kind;

constexpr std::size_t round_trips_measured = 20;

// How many steps of SCAN look for locks: enough for 100,000 keys.
constexpr int most_scans = 100;

// Checks the permissions that cannot be tried. Before Redis 7.0 that needs another
// permission, so they are not checked.
constexpr const char* permissions_script = R"lua(
local missing = {}
for _, command in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(command, '[^ ]+') do words[#words + 1] = word end
  if redis.acl_check_cmd and not redis.acl_check_cmd(unpack(words)) then
    missing[#missing + 1] = command
  end
end
return missing
)lua";

int trips_to_renew(const Target& target) {
  const bool logs_in = target.login.has_password();
  constexpr int connect = 1;
  constexpr int tls = 2;
  constexpr int ask = 2;  // the server may have forgotten the script
  return connect + (target.tls ? tls : 0) + (logs_in || target.database != 0 ? 1 : 0) +
         ask;
}

// A key in the namespace that no lock uses, because no name is empty.
std::string key_for_trials(const std::string& prefix) { return prefix + "{}:doctor"; }

Command words_of(std::string_view form) {
  Command words;
  while (!form.empty()) {
    const auto end = std::min(form.find(' '), form.size());
    words.emplace_back(form.substr(0, end));
    form.remove_prefix(std::min(end + 1, form.size()));
  }
  return words;
}

// The pairs of HELLO and CONFIG GET.
void add_pairs(const Reply& reply, Fields& fields) {
  for (std::size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
    fields[reply.elements[i].text] = reply.elements[i + 1].text;
  }
}

void add_answer(const Reply& reply, Fields& fields, std::optional<std::string>& refused) {
  if (reply.is_error()) {
    refused = reply.text;
  } else if (reply.kind == Kind::string) {
    fields.merge(fields_of_info(reply.text));
  } else {
    add_pairs(reply, fields);
  }
}

// Like dlock's scripts, it uses a key that it does not declare, derived from a declared
// one.
constexpr const char* use_undeclared = "return redis.call('EXISTS', KEYS[1] .. ARGV[1])";

// Whether the server is too busy, too full or not allowed to execute commands; not
// whether the arguments of a trial are wrong.
bool refuses_work(const Reply& reply) {
  constexpr std::string_view codes[] = {"LOADING",     "BUSY",       "OOM",
                                        "MISCONF",     "NOREPLICAS", "MOVED",
                                        "CLUSTERDOWN", "READONLY",   "MASTERDOWN"};
  return reply.is_error() && std::find(std::begin(codes), std::end(codes),
                                       reply.error_code()) != std::end(codes);
}

class RedisExaminer {
 public:
  RedisExaminer(asio::io_context& context, const Target& target,
                const std::string& name_space, milliseconds timeout,
                std::span<const Permission> more, Wakeup& wakeup)
      : connection_(context, target), timeout_(timeout), more_(more), wakeup_(wakeup) {
    facts.server = target.shown();
    facts.user =
        target.login.user.empty() ? "default" : printable(target.login.user, 200);
    facts.key_prefix = percent_encoded(name_space) + ":";
    facts.uses_tls = target.tls.has_value();
    facts.trips_to_renew = trips_to_renew(target);
  }

  asio::awaitable<void> examine() {
    try {
      co_await connection_.open(new_call(wakeup_));
      facts.was_reached = true;
      co_await ask_for_settings();
      if (facts.no_login) co_return;
      co_await try_commands();
      co_await try_undeclared();
      co_await measure();
    } catch (const Failure& failure) {
      // A shortage on this machine says nothing about the server.
      if (failure.kind() == Failure::Kind::exhausted) throw;
      facts.failure = failure;
      co_return;
    }
    try {
      co_await look_at_fences();
    } catch (const Failure& failure) {
      // Locks work nevertheless.
      if (failure.kind() == Failure::Kind::exhausted) throw;
    }
  }

  RedisFacts facts;

 private:
  Call new_call(Wakeup& wakeup) const { return wakeup.within(timeout_); }

  asio::awaitable<void> ask_for_settings() {
    constexpr const char* sections[] = {"server",  "replication", "persistence", "memory",
                                        "cluster", "clients",     "stats"};
    constexpr const char* settings[] = {"save", "min-replicas-to-write",
                                        "cluster-node-timeout", "maxclients",
                                        "max-new-tls-connections-per-cycle"};
    std::vector<Command> commands;
    // HELLO needs no permission and reports what INFO may not. The protocol stays RESP2.
    commands.push_back(words_of("HELLO 2"));
    for (const auto* section : sections) commands.push_back({"INFO", section});
    for (const auto* setting : settings) commands.push_back({"CONFIG", "GET", setting});
    const auto replies =
        co_await connection_.exchange(std::move(commands), new_call(wakeup_));
    std::size_t next = 0;
    if (replies[next].error_code() == "NOAUTH") facts.no_login = replies[next].text;
    add_pairs(replies[next++], facts.hello);
    for (std::size_t i = 0; i < std::size(sections); ++i) {
      if (replies[next].error_code() == "NOAUTH") facts.no_login = replies[next].text;
      add_answer(replies[next++], facts.info, facts.info_refused);
    }
    for (std::size_t i = 0; i < std::size(settings); ++i) {
      add_answer(replies[next++], facts.config, facts.config_refused);
    }
  }

  asio::awaitable<void> try_commands() {
    const auto key = key_for_trials(facts.key_prefix);
    auto trials = trials_of(needed_permissions, key, facts.key_prefix);
    for (auto& more : trials_of(more_, key, facts.key_prefix)) trials.push_back(more);
    std::vector<Command> commands;
    for (const auto& trial : trials) commands.push_back(trial.command);
    Command ask{"EVAL", permissions_script, "1", key};
    std::map<std::string, const Permission*> asked;  // by form
    for (const auto& right : needed_permissions) {
      if (right.how != Permission::How::asked) continue;
      std::string form;
      for (const auto& word : command_of(right, key, facts.key_prefix)) {
        form += (form.empty() ? "" : " ") + word;
      }
      asked.emplace(form, &right);
      ask.push_back(form);
    }
    commands.push_back(std::move(ask));
    const auto replies =
        co_await connection_.exchange(std::move(commands), new_call(wakeup_));
    for (std::size_t i = 0; i < trials.size(); ++i) note_reply(trials[i], replies[i]);
    const auto eval = std::find_if(trials.begin(), trials.end(), [](const Trial& trial) {
      return trial.right->how == Permission::How::known;
    });
    note_rights(*eval->right, replies.back());
    for (const auto& missing : replies.back().elements) {
      const auto found = asked.find(missing.text);
      if (found == asked.end()) continue;
      // Without permission for the key these are refused as well.
      const bool is_for_keys = !found->second->is_for_watch && facts.keys_are_missing;
      if (!is_for_keys) note_missing(*found->second);
    }
  }

  // Compared with the same script with a declared key: if that also fails, there is
  // another reason.
  asio::awaitable<void> try_undeclared() {
    // Both keys are in the same slot of a cluster.
    const auto key = facts.key_prefix + "{:doctor}";
    std::vector<Command> commands;
    for (const char* end : {"", ":q"}) {
      commands.push_back({"EVAL", use_undeclared, "1", key, end});
    }
    const auto replies =
        co_await connection_.exchange(std::move(commands), new_call(wakeup_));
    facts.refuses_undeclared = undeclared_refused(replies[0], replies[1]);
  }

  void note_missing(const Permission& right) {
    auto& missing = right.is_for_watch ? facts.missing_for_watch : facts.missing_commands;
    missing.emplace_back(right.name);
  }

  void note_reply(const Trial& trial, const Reply& reply) {
    if (unknown_command_in(reply)) {
      auto& unknown =
          trial.right->is_for_watch ? facts.unknown_for_watch : facts.unknown_commands;
      unknown.push_back(shown_name(*trial.right));
    } else if (trial.tells_rights) {
      note_rights(*trial.right, reply);
    }
  }

  void note_rights(const Permission& right, const Reply& reply) {
    const auto denial = denial_of(reply);
    if (denial == Denial::command) note_missing(right);
    if (denial == Denial::keys) facts.keys_are_missing = true;
    if (refuses_work(reply) && !facts.refuses_work) facts.refuses_work = reply.text;
  }

  asio::awaitable<void> measure() {
    const auto call = new_call(wakeup_);
    auto best = std::chrono::nanoseconds::max();
    for (std::size_t i = 0; i < round_trips_measured; ++i) {
      std::vector<Command> commands;
      commands.push_back(words_of("TIME"));
      const auto sent_at = Clock::now();
      const auto wall = wall_now();
      const auto replies =
          co_await connection_.exchange(std::move(commands), new_call(wakeup_));
      const auto took = Clock::now() - sent_at;
      facts.round_trips.push_back(took);
      // The fastest reply gives the most accurate time.
      if (took < best) {
        best = took;
        note_time(replies.front(),
                  wall + std::chrono::duration_cast<microseconds>(took) / 2);
      }
      if (call.is_over()) co_return;
    }
  }

  // The counters of the locks, as far as they can be read within the budget.
  asio::awaitable<void> look_at_fences() {
    const auto call = new_call(wakeup_);
    std::string cursor = "0";
    for (int step = 0; step < most_scans && !call.is_over(); ++step) {
      Command scan{"SCAN",  std::move(cursor),
                   "MATCH", facts.key_prefix + "{*}:s",
                   "COUNT", "1000"};
      const auto found = co_await connection_.exchange(alone(std::move(scan)), call);
      const auto& reply = found.front();
      if (reply.kind != Kind::array || reply.elements.size() != 2) co_return;
      co_await note_fences(reply.elements[1].elements, call);
      cursor = reply.elements[0].text;
      if (cursor == "0") co_return;
    }
  }

  asio::awaitable<void> note_fences(const std::vector<Reply>& keys, Call call) {
    if (keys.empty()) co_return;
    std::vector<Command> commands;
    for (const auto& key : keys) commands.push_back({"HGET", key.text, "fence"});
    const auto fences = co_await connection_.exchange(std::move(commands), call);
    const auto plausible = greatest_plausible_fence(
        wall_now() + facts.clock_ahead.value_or(microseconds(0)), {});
    for (std::size_t i = 0; i < keys.size(); ++i) {
      note_fence(keys[i].text, fences[i], plausible);
    }
  }

  void note_fence(const std::string& key, const Reply& fence, Fence plausible) {
    if (fence.kind != Kind::string) return;
    const auto number = number_in<std::uint64_t>(fence.text);
    if (number && *number <= plausible.number) return;
    facts.far_fences.emplace_back(key, fence.text);
  }

  void note_time(const Reply& reply, WallTime ours) {
    if (reply.elements.size() != 2) return;
    const auto seconds = number_in<std::int64_t>(reply.elements[0].text).value_or(0);
    const auto rest = number_in<std::int64_t>(reply.elements[1].text).value_or(0);
    constexpr std::int64_t latest = std::int64_t{1} << 40;  // far beyond any clock
    if (seconds <= 0 || seconds > latest || rest < 0 || rest > 1'000'000) return;
    facts.clock_ahead = std::chrono::seconds(seconds) + microseconds(rest) - ours;
  }

  RedisConnection connection_;
  milliseconds timeout_;
  std::span<const Permission> more_;
  Wakeup& wakeup_;
};

bool is_before(std::string_view version, int major, int minor) {
  const auto first = take_number<int>(version).value_or(0);
  if (version.starts_with('.')) version.remove_prefix(1);
  const auto second = take_number<int>(version).value_or(0);
  return first != major ? first < major : second < minor;
}

}  // namespace

Denial denial_of(const Reply& reply) {
  if (!reply.is_error() || reply.error_code() != "NOPERM") return Denial::none;
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

asio::awaitable<RedisFacts> facts_of(asio::io_context& context, const Target& target,
                                     const std::string& name_space, milliseconds timeout,
                                     Wakeup& wakeup, std::span<const Permission> more) {
  RedisExaminer examiner(context, target, name_space, timeout, more, wakeup);
  co_await examiner.examine();
  co_return std::move(examiner.facts);
}

asio::awaitable<std::vector<RedisFacts>> facts_of_all(
    asio::io_context& context, std::vector<Target> targets, std::string name_space,
    milliseconds timeout, Wakeup& wakeup, std::span<const Permission> more) {
  const auto count = targets.size();
  const auto ask = [&context, targets = std::move(targets),
                    name_space = std::move(name_space), timeout,
                    more](std::size_t number, Wakeup& own) {
    return facts_of(context, targets[number], name_space, timeout, own, more);
  };
  co_return co_await ask_all<RedisFacts>(context, count, ask, wakeup);
}

std::optional<ServerVersion> version_of(const RedisFacts& facts) {
  if (const auto valkey = field(facts.info, "valkey_version"); !valkey.empty()) {
    return ServerVersion{"Valkey", valkey, is_before(valkey, 7, 2)};
  }
  auto text = field(facts.info, "redis_version");
  if (text.empty()) text = field(facts.hello, "version");
  if (text.empty()) return std::nullopt;
  const bool is_valkey = field(facts.hello, "server") == "valkey";
  return ServerVersion{is_valkey ? "Valkey" : "Redis", text,
                       is_valkey ? is_before(text, 7, 2) : is_before(text, 6, 2)};
}

std::optional<microseconds> clock_spread(std::span<const RedisFacts> servers) {
  std::vector<microseconds> clocks;
  for (const auto& one : servers) {
    if (one.clock_ahead) clocks.push_back(*one.clock_ahead);
  }
  return spread_of(clocks);
}

}  // namespace dlock::redis
