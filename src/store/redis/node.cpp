#include "store/redis/node.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "net/budget.hpp"
#include "store/redis/permissions.hpp"
#include "store/redis/reply.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

// A connection sets its name, for people who list a server's clients, once it has lasted
// this long. Most connections are closed before.
constexpr milliseconds names_itself_after{1000};

struct SortOfError {
  std::string_view code;
  ReplyClass sort;
};
constexpr SortOfError sorts[] = {
    {"MOVED", ReplyClass::moved},           {"ASK", ReplyClass::ask},
    {"TRYAGAIN", ReplyClass::ask},          {"LOADING", ReplyClass::not_now},
    {"BUSY", ReplyClass::not_now},          {"CLUSTERDOWN", ReplyClass::not_now},
    {"MASTERDOWN", ReplyClass::not_now},    {"READONLY", ReplyClass::not_primary},
    {"UNBLOCKED", ReplyClass::not_primary},
};

bool is_role_of(const Reply& role, std::string_view kind) {
  return role.kind == Reply::Kind::array && !role.elements.empty() &&
         role.elements.front().text == kind;
}

std::vector<Command> questions_for(Role role) {
  if (role == Role::primary) return alone({"ROLE"});
  if (role == Role::cluster_member) return alone({"CLUSTER", "MYID"});
  auto questions = alone({"INFO", "server"});
  questions.push_back({"ROLE"});
  return questions;
}

// The same error that the server itself sends for a write.
Reply not_a_primary() {
  Reply reply;
  reply.kind = Reply::Kind::error;
  reply.text = "READONLY dlock asked for its role: it is a replica";
  return reply;
}

}  // namespace

unsigned replicas_in(const Reply& role) {
  return is_role_of(role, "master") && role.elements.size() > 2
             ? static_cast<unsigned>(role.elements[2].elements.size())
             : 0;
}

namespace {

// The server replies to it as soon as that many replicas have acknowledged what this
// connection wrote, and at the latest in time for us to read the reply.
Command wait_for(unsigned replicas, Clock::time_point until) {
  const auto left = std::chrono::floor<milliseconds>(until - Clock::now()) * 3 / 4;
  return {"WAIT", std::to_string(replicas),
          std::to_string(std::max<std::int64_t>(left.count(), 1))};
}

// Longer than any server is up, and within the range of the clock.
constexpr std::int64_t most_seconds = 1'000'000'000;

// A run_id has 40 hexadecimal digits; it is shown to users.
constexpr std::size_t longest_run_id = 64;

}  // namespace

ReplyClass class_of(const Reply& reply) {
  if (!reply.is_error()) return ReplyClass::answer;
  const auto code = reply.error_code();
  const auto found = std::ranges::find_if(
      sorts, [&](const SortOfError& one) { return one.code == code; });
  return found == std::end(sorts) ? ReplyClass::refused : found->sort;
}

Command command_of(const Script& script, Sent sent, const std::vector<std::string>& keys,
                   const std::vector<std::string>& args) {
  const bool is_in_full = sent == Sent::in_full;
  Command command{is_in_full ? "EVAL" : "EVALSHA", is_in_full ? script.text : script.sha1,
                  std::to_string(keys.size())};
  command.insert(command.end(), keys.begin(), keys.end());
  command.insert(command.end(), args.begin(), args.end());
  return command;
}

Node::Node(asio::io_context& context, Target target, milliseconds timeout, Role role)
    : context_(context),
      target_(std::move(target)),
      timeout_(timeout),
      role_(role),
      name_(target_.shown()),
      connection_(context, target_) {}

Failure Node::failure(const Reply& reply) const {
  const auto sort = class_of(reply);
  const bool is_on_its_way = sort == ReplyClass::moved || sort == ReplyClass::ask;
  if (role_ == Role::cluster_member && is_on_its_way) {
    return Failure::unreachable(
        name_ + ": the lock's slot is being migrated: " + printable(reply.text, 200));
  }
  if (reply.is_error()) return failure_from(reply, name_);
  return Failure::unreachable(name_ + " sent an unexpected reply");
}

asio::awaitable<void> Node::open(Call call) {
  if (role_ != Role::any) connection_.drop_if_closed();
  if (connection_.is_open()) co_return;
  is_named_ = false;
  is_checked_ = false;
  is_suspect_ = true;  // until it is open
  try {
    co_await connection_.open(call);
  } catch (const net::Refusal& refusal) {
    // The others vote without a server that is not there. Trying it again would delay
    // them.
    const bool is_there = refusal.reason() != net::Refusal::Reason::absent;
    if (role_ == Role::independent && !is_there) throw Failure(refusal);
    throw;
  }
  is_suspect_ = false;
  opened_at_ = Clock::now();
}

asio::awaitable<std::vector<Reply>> Node::exchange(std::vector<Command> commands,
                                                   Call call) {
  co_await open(call);
  const bool names_itself = !is_named_ && Clock::now() - opened_at_ >= names_itself_after;
  const bool checks = role_ != Role::any && !is_checked_;
  if (names_itself) {
    commands.insert(commands.begin(), Command{"CLIENT", "SETNAME", "dlock"});
    is_named_ = true;
  }
  const auto questions = checks ? questions_for(role_) : std::vector<Command>{};
  commands.insert(commands.begin(), questions.begin(), questions.end());
  std::vector<Reply> replies;
  try {
    // Another connection might lead to another server, which has to be checked first.
    const auto reopening = role_ == Role::any ? RedisConnection::Reopening::allowed
                                              : RedisConnection::Reopening::refused;
    replies = co_await connection_.exchange(std::move(commands), call, reopening);
  } catch (const Failure& failure) {
    is_suspect_ = failure.kind() != Failure::Kind::interrupted;
    throw;
  }
  if (checks) {
    is_checked_ = take_check(replies);
    const auto answers = static_cast<std::ptrdiff_t>(questions.size());
    replies.erase(replies.begin(), replies.begin() + answers);
    if (!is_checked_) {
      connection_.close();
      std::ranges::fill(replies, not_a_primary());
    }
  }
  // A user without permission for it can use locks nevertheless.
  if (names_itself) replies.erase(replies.begin());
  const auto sort = class_of(replies.front());
  is_suspect_ = sort == ReplyClass::not_now || sort == ReplyClass::not_primary;
  // Its host name may resolve to another server by now.
  if (sort == ReplyClass::not_primary) connection_.close();
  co_return replies;
}

// Whether the server has the required role. Throws Failure if it cannot get that role.
bool Node::take_check(const std::vector<Reply>& replies) {
  const auto& reply = replies.front();
  if (role_ == Role::independent) {
    take_life(replies[0], replies[1]);
    return true;
  }
  if (role_ == Role::primary) {
    connected_ = replicas_in(reply);
    if (!reply.is_error()) return is_role_of(reply, "master");
    connection_.close();
    throw failure(reply);
  }
  if (reply.text.find("cluster support disabled") == std::string::npos) return true;
  connection_.close();
  throw Failure::misconfigured(name_ + " is not a member of a cluster: use " +
                               (target_.tls ? "rediss" : "redis") + "://" + name_);
}

// Throws Failure for a server that cannot be an independent voter.
void Node::take_life(const Reply& info, const Reply& role) {
  for (const auto* reply : {&info, &role}) {
    if (!reply->is_error()) continue;
    connection_.close();
    throw failure(*reply);
  }
  const auto life = life_from(fields_of_info(info.text), Clock::now());
  if (!life) {
    connection_.close();
    throw Failure::unreachable(name_ + " does not report its uptime");
  }
  if (info.text.find("redis_mode:cluster") != std::string::npos) {
    connection_.close();
    throw Failure::misconfigured(
        name_ + " is a member of a cluster: a quorum needs independent servers");
  }
  life_ = *life;
  if (!is_role_of(role, "master")) {
    connection_.close();
    throw Failure::misconfigured(
        name_ + (is_role_of(role, "sentinel") ? " is a sentinel" : " is a replica") +
        ": a quorum needs independent servers");
  }
}

asio::awaitable<std::vector<Reply>> Node::exchange_and_wait(Command command,
                                                            unsigned replicas,
                                                            Call call) {
  auto commands = alone(std::move(command));
  if (replicas > 0) commands.push_back(wait_for(replicas, call.until));
  // Behind the WAIT, so that a replica that came meanwhile is counted.
  const bool asks_role = replicas > 0 && role_ == Role::primary;
  if (asks_role) commands.push_back({"ROLE"});
  auto replies = co_await exchange(std::move(commands), call);
  if (asks_role) {
    if (!replies.back().is_error()) connected_ = replicas_in(replies.back());
    replies.pop_back();
  }
  co_return replies;
}

asio::awaitable<Reply> Node::wait_again(unsigned replicas, Call call) {
  // On another connection, nothing was written that it could wait for.
  const auto replies = co_await connection_.exchange(
      alone(wait_for(replicas, call.until)), call, RedisConnection::Reopening::refused);
  co_return replies.front();
}

// The server caches scripts until it is restarted or its cache is flushed. Behind a
// script that it does not know, it waits for replicas nevertheless; one that has just
// taken over has none, so this would take most of the budget.
asio::awaitable<std::vector<Reply>> Node::run(const Script& script,
                                              const std::vector<std::string>& keys,
                                              const std::vector<std::string>& args,
                                              unsigned replicas, Call call, Sent sent) {
  const auto declared = with_probes(keys);
  auto command = command_of(script, sent, declared, args);
  auto replies = co_await exchange_and_wait(std::move(command), replicas, call);
  if (declared.size() > keys.size()) {
    const bool again = co_await is_only_about_probes(replies.front(), call);
    if (again) co_return co_await run(script, keys, args, replicas, call, sent);
  }
  if (replies.front().error_code() == "NOSCRIPT") {
    command = command_of(script, Sent::in_full, declared, args);
    replies = co_await exchange_and_wait(std::move(command), replicas, call);
  }
  if (hides_refused_command(replies.front())) {
    auto named = co_await refused_command(script, keys.front(), call);
    if (named) replies.front() = std::move(*named);
  }
  co_return replies;
}

// A member of a cluster executes scripts for some names and redirects those for others.
// For it to refuse all of them, the first script also declares two keys that it does
// not use, in different slots: this costs no other command, and nothing is executed.
std::vector<std::string> Node::with_probes(const std::vector<std::string>& keys) const {
  auto declared = keys;
  if (role_ != Role::any || is_alone_) return declared;
  const auto prefix = keys.front().substr(0, keys.front().find('{'));
  for (const char* probe : {"{}:1", "{}:2"}) declared.push_back(prefix + probe);
  return declared;
}

// Whether a script was refused only because of those keys: by a proxy in front of several
// servers, or because the user may access the keys of some locks only. Throws Failure for
// a member of a cluster.
asio::awaitable<bool> Node::is_only_about_probes(const Reply& reply, Call call) {
  const auto code = reply.error_code();
  const bool is_refused = code == "CROSSSLOT" || code == "NOPERM";
  if (code == "CROSSSLOT") co_await require_alone(call);
  if (is_refused || !reply.is_error() || code == "NOSCRIPT") is_alone_ = true;
  co_return is_refused;
}

// HELLO needs no permission. A server or proxy that does not know it is no member.
asio::awaitable<void> Node::require_alone(Call call) {
  if (role_ != Role::any || is_alone_) co_return;
  auto hello = alone({"HELLO"});
  const auto replies = co_await exchange(std::move(hello), call);
  if (field(fields_of_pairs(replies.front()), "mode") == "cluster") {
    connection_.close();
    Reply refusal;
    refusal.kind = Reply::Kind::error;
    refusal.text = "CROSSSLOT";
    throw failure(refusal);
  }
  is_alone_ = !replies.front().is_error();
  if (is_alone_) co_return;
  const auto refused = failure(replies.front());
  if (refused.kind() == Failure::Kind::rejected) throw Failure(refused);
}

// The error of the first command in a script that the server refuses: the error of the
// script does not name it.
asio::awaitable<std::optional<Reply>> Node::refused_command(const Script& script,
                                                            const std::string& key,
                                                            Call call) {
  std::vector<Command> commands;
  for (const auto& right : needed_permissions) {
    auto trial = trial_of(right, key, key);
    const auto quoted = "'" + trial.front() + "'";
    if (std::string_view(script.text).find(quoted) == std::string::npos) continue;
    commands.push_back(std::move(trial));
  }
  if (commands.empty()) co_return std::nullopt;
  auto replies = co_await exchange(std::move(commands), call);
  for (auto& reply : replies) {
    const bool is_denied = reply.error_code() == "NOPERM";
    if (is_denied) reply.text += " (called by a script of dlock)";
    if (is_denied || unknown_command_in(reply)) co_return std::move(reply);
  }
  co_return std::nullopt;
}

asio::awaitable<std::vector<Reply>> Node::run_asking(const Script& script,
                                                     const std::vector<std::string>& keys,
                                                     const std::vector<std::string>& args,
                                                     unsigned replicas, Call call) {
  auto commands = alone(command_of(script, Sent::in_full, keys, args));
  if (replicas > 0) commands.push_back(wait_for(replicas, call.until));
  commands.insert(commands.begin(), Command{"ASKING"});
  auto replies = co_await exchange(std::move(commands), call);
  if (!replies.front().is_error()) replies.erase(replies.begin());
  co_return replies;
}

std::optional<Life> life_from(const Fields& info, Clock::time_point now) {
  const auto id = field(info, "run_id");
  const auto seconds = number_in<std::int64_t>(field(info, "uptime_in_seconds"));
  const bool is_id = !id.empty() && id.size() <= longest_run_id &&
                     id.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_id || !seconds || *seconds < 0) return std::nullopt;
  // It counts whole seconds, the first of which may have been incomplete.
  const auto sure = std::clamp<std::int64_t>(*seconds - 1, 0, most_seconds);
  return Life{id, now - std::chrono::seconds(sure)};
}

}  // namespace dlock::redis
