#include "store/redis/redis_facts.hpp"

#include <algorithm>
#include <map>

#include "lock/lease.hpp"
#include "store/fan_out.hpp"
#include "store/redis/redis_connection.hpp"
#include "store/redis/redis_health.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

using std::chrono::microseconds;
using Kind = Reply::Kind;

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

// Like dlock's scripts, it uses a key that it does not declare, derived from a declared
// one.
constexpr const char* use_undeclared = "return redis.call('EXISTS', KEYS[1] .. ARGV[1])";

int trips_to_renew(const Target& target) {
  const bool logs_in = target.login.has_password() || target.database != 0;
  constexpr int connect = 1;
  constexpr int tls = 2;
  constexpr int ask = 2;  // the server may have forgotten the script
  return connect + (target.tls ? tls : 0) + (logs_in ? 1 : 0) + ask;
}

// The pairs of HELLO and CONFIG GET.
void add_pairs(const Reply& reply, Fields& fields) {
  for (std::size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
    fields[reply.elements[i].text] = reply.elements[i + 1].text;
  }
}

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
      co_await measure(facts, new_call(wakeup_).until, [this] { return ask_for_time(); });
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

  asio::awaitable<std::vector<Reply>> ask(std::vector<Command> commands) {
    return connection_.exchange(std::move(commands), new_call(wakeup_));
  }

  asio::awaitable<void> ask_for_settings() {
    // HELLO needs no permission and reports what INFO may not. The protocol stays RESP2.
    std::vector<Command> commands{{"HELLO", "2"}};
    for (const auto& question : questions()) commands.push_back(words_of(question));
    const auto all = commands;
    const auto replies = co_await ask(std::move(commands));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& reply = replies[i];
      const bool is_config = all[i].front() == "CONFIG";
      if (!is_config && reply.error_code() == "NOAUTH") facts.no_login = reply.text;
      if (i > 0 && reply.is_error()) {
        (is_config ? facts.config_refused : facts.info_refused) = reply.text;
      } else if (reply.kind == Kind::string) {
        facts.info.merge(fields_of_info(reply.text));
      } else {
        add_pairs(reply, is_config ? facts.config : facts.hello);
      }
    }
  }

  asio::awaitable<void> try_commands() {
    // A key in the namespace that no lock uses, because no name is empty.
    const auto key = facts.key_prefix + "{}:doctor";
    auto trials = trials_of(needed_permissions, key, facts.key_prefix);
    for (auto& more : trials_of(more_, key, facts.key_prefix)) trials.push_back(more);
    std::vector<Command> commands;
    for (const auto& trial : trials) commands.push_back(trial.command);
    Command asking{"EVAL", permissions_script, "1", key};
    std::map<std::string, const Permission*> asked;  // by form
    for (const auto& right : needed_permissions) {
      if (right.how != Permission::How::asked) continue;
      std::string form;
      for (const auto& word : command_of(right, key, facts.key_prefix)) {
        form += (form.empty() ? "" : " ") + word;
      }
      asked.emplace(form, &right);
      asking.push_back(form);
    }
    commands.push_back(std::move(asking));
    const auto replies = co_await ask(std::move(commands));
    for (std::size_t i = 0; i < trials.size(); ++i) {
      note_reply(trials[i], replies[i]);
      const bool is_eval = trials[i].right->how == Permission::How::known;
      if (is_eval) note_rights(*trials[i].right, replies.back());
    }
    for (const auto& missing : replies.back().elements) {
      const auto found = asked.find(missing.text);
      if (found == asked.end()) continue;
      // Without permission for the key these are refused as well.
      const bool is_for_keys = !found->second->is_for_watch && facts.keys_are_missing;
      if (!is_for_keys) note_missing(*found->second);
    }
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

  // The fastest reply gives the most accurate time.
  asio::awaitable<void> ask_for_time() {
    const auto wall = wall_now();
    const auto began = Clock::now();
    const auto replies = co_await ask(alone(words_of("TIME")));
    const auto took = Clock::now() - began;
    if (took >= fastest_) co_return;
    fastest_ = took;
    note_time(replies.front(), wall + std::chrono::floor<microseconds>(took) / 2);
  }

  void note_time(const Reply& reply, WallTime ours) {
    if (reply.elements.size() != 2) return;
    const auto seconds = number_in<std::int64_t>(reply.elements[0].text).value_or(0);
    const auto rest = number_in<std::int64_t>(reply.elements[1].text).value_or(0);
    constexpr std::int64_t latest = std::int64_t{1} << 40;  // far beyond any clock
    if (seconds <= 0 || seconds > latest || rest < 0 || rest > 1'000'000) return;
    facts.clock_ahead = std::chrono::seconds(seconds) + microseconds(rest) - ours;
  }

  // The counters of the locks, as far as they can be read within the budget.
  asio::awaitable<void> look_at_fences() {
    const auto call = new_call(wakeup_);
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
      for (std::size_t i = 0; i < keys.size(); ++i) {
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
  std::span<const Permission> more_;
  Wakeup& wakeup_;
  Clock::duration fastest_ = Clock::duration::max();
};

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

asio::awaitable<std::vector<RedisFacts>> facts_of_all(asio::io_context& context,
                                                      std::vector<Target> targets,
                                                      const ExaminationOrder& order,
                                                      Wakeup& wakeup,
                                                      std::span<const Permission> more) {
  const auto count = targets.size();
  auto* const loop = &context;
  const auto ask = [loop, targets = std::move(targets), name_space = order.name_space,
                    timeout = order.timeout, of_runs = order.store_timeout, more](
                       std::size_t number, Wakeup& own) -> asio::awaitable<RedisFacts> {
    RedisExaminer examiner(*loop, targets[number], name_space, timeout, more, own);
    examiner.facts.store_timeout = of_runs;
    co_await examiner.examine();
    co_return std::move(examiner.facts);
  };
  co_return co_await ask_all<RedisFacts>(context, count, ask, wakeup);
}

std::optional<microseconds> clock_spread(const std::vector<RedisFacts>& servers) {
  std::vector<microseconds> clocks;
  for (const auto& one : servers) {
    if (one.clock_ahead) clocks.push_back(*one.clock_ahead);
  }
  return spread_of(clocks);
}

}  // namespace dlock::redis
