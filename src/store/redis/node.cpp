#include "store/redis/node.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "store/redis/records.hpp"

namespace dlock::redis {
namespace {

// Connections say whose they are, for people who look at a server's list of them, once
// they have lasted so long; most have not, and are gone before anybody looks.
constexpr milliseconds names_itself_after{1000};

struct SortOfError {
  std::string_view code;
  ReplySort sort;
};
constexpr SortOfError sorts[] = {
    {"MOVED", ReplySort::moved},           {"ASK", ReplySort::ask},
    {"TRYAGAIN", ReplySort::ask},          {"LOADING", ReplySort::not_now},
    {"BUSY", ReplySort::not_now},          {"CLUSTERDOWN", ReplySort::not_now},
    {"MASTERDOWN", ReplySort::not_now},    {"READONLY", ReplySort::not_primary},
    {"UNBLOCKED", ReplySort::not_primary},
};

}  // namespace

ReplySort sort_of(const Reply& reply) {
  if (!reply.is_error()) return ReplySort::answer;
  const auto code = reply.error_code();
  const auto found =
      std::find_if(std::begin(sorts), std::end(sorts),
                   [&](const SortOfError& one) { return one.code == code; });
  return found == std::end(sorts) ? ReplySort::refused : found->sort;
}

Node::Node(asio::io_context& context, Target target, milliseconds timeout)
    : context_(context),
      target_(std::move(target)),
      timeout_(timeout),
      name_(target_.shown()),
      connection_(context, target_) {}

Failure Node::failure(const Reply& reply) const {
  if (reply.is_error()) return failure_from(reply, name_);
  return Failure(Failure::Kind::unreachable,
                 name_ + " answers with something that is not expected");
}

asio::awaitable<void> Node::open(Clock::time_point until, Wakeup& wakeup) {
  if (connection_.is_open()) co_return;
  is_named_ = false;
  co_await connection_.open(until, wakeup);
  opened_at_ = Clock::now();
}

asio::awaitable<std::vector<Reply>> Node::exchange(std::vector<Command> commands,
                                                   Clock::time_point until,
                                                   Wakeup& wakeup) {
  co_await open(until, wakeup);
  const bool names_itself = !is_named_ && Clock::now() - opened_at_ >= names_itself_after;
  if (names_itself) {
    commands.insert(commands.begin(), Command{"CLIENT", "SETNAME", "dlock"});
    is_named_ = true;
  }
  auto replies = co_await connection_.exchange(std::move(commands), until, wakeup);
  // A user without the right to it may use locks all the same.
  if (names_itself) replies.erase(replies.begin());
  co_return replies;
}

// The server keeps scripts until it is restarted or told to forget them.
asio::awaitable<Reply> Node::run(const Script& script, const LockName& lock,
                                 std::vector<std::string> args, Clock::time_point until,
                                 Wakeup& wakeup) {
  Command command{"EVALSHA", script.sha1, "1", key_of(lock)};
  command.insert(command.end(), std::make_move_iterator(args.begin()),
                 std::make_move_iterator(args.end()));
  auto replies = co_await exchange(alone(command), until, wakeup);
  if (replies.front().error_code() == "NOSCRIPT") {
    command[0] = "EVAL";
    command[1] = script.text;
    replies = co_await exchange(alone(std::move(command)), until, wakeup);
  }
  co_return std::move(replies.front());
}

asio::awaitable<Reply> Node::run(const Script& script, const LockName& lock,
                                 std::vector<std::string> args, Wakeup& wakeup) {
  return run(script, lock, std::move(args), budget_end(), wakeup);
}

}  // namespace dlock::redis
