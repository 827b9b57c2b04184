#include "store/redis/route.hpp"

#include <algorithm>
#include <utility>

#include "net/budget.hpp"
#include "store/redis/records.hpp"

namespace dlock::redis {
namespace {

// The most redirections to follow. More mean that two servers redirect to each other.
constexpr int most_hops = 5;

}  // namespace

asio::awaitable<Node*> Route::open(const LockName& lock, Call call) {
  for (net::Attempts attempts(call, timeout_);;) {
    Clock::time_point end;
    Node* node = nullptr;
    try {
      node = co_await node_for(lock, call);
      co_await node->open(call);
      co_return node;
    } catch (const Failure& error) {
      attempts.note(error, node == nullptr ? error : node->target().with_origin(error));
      const bool passes = has_others() && error.kind() == Failure::Kind::unreachable;
      end = passes ? call.until : attempts.end_of_patience(error);
    }
    if (!co_await attempts.pause(end)) throw Failure(attempts.reason());
  }
}

asio::awaitable<Response> Route::asked(const LockName& lock, const Ask& ask, Call call) {
  int hops = 0;
  for (net::Attempts attempts(call, timeout_);;) {
    std::optional<Clock::time_point> end;
    Response response;
    try {
      response.node = co_await open(lock, call);
      response.replies = co_await ask(*response.node);
    } catch (const net::Refusal& refusal) {
      // The new connection was accepted and then closed, with nothing executed.
      attempts.note(refusal);
      end = attempts.end_of_patience(refusal);
    } catch (const Failure& failure) {
      attempts.note(failure);
      throw Failure(attempts.reason());
    }
    if (end) {
      if (!co_await attempts.pause(*end)) throw Failure(attempts.reason());
      continue;
    }
    const auto next = then(lock, *response.node, response.reply());
    if (next == Then::done) co_return response;
    if (next == Then::follow && ++hops <= most_hops && !call.is_over()) continue;
    attempts.note(response.failure());
    if (!co_await attempts.pause()) co_return response;
  }
}

// In full to a server that has taken over: it need not know any script.
Sent Route::way_to_send(const Script& script, const Node& node) const {
  if (first_ == nullptr || first_ == &node) return Sent::by_hash;
  const auto last = ran_on_.find(&script);
  const bool knows_it = last != ran_on_.end() && last->second == &node;
  return knows_it ? Sent::by_hash : Sent::in_full;
}

asio::awaitable<Response> Route::run(const Script& script, const LockName& lock,
                                     std::vector<std::string> args, Call call,
                                     Durability durability) {
  const auto keys = keys_for(script, lock);
  unsigned wanted = 0;
  const Ask ask = [&](Node& node) -> asio::awaitable<std::vector<Reply>> {
    wanted = 0;
    if (durability == Durability::replicas) {
      wanted = co_await replicas_of(node, call);
    }
    const auto sent = wanted > 0 ? way_to_send(script, node) : Sent::by_hash;
    auto replies = co_await node.run(script, keys, args, wanted, call, sent);
    if (wanted > 0 && !replies.front().is_error()) {
      if (first_ == nullptr) first_ = &node;
      ran_on_[&script] = &node;
      // The first request on a connection learns how many replicas are connected.
      auto all = wanted;
      if (node.connected() > wanted) all = co_await replicas_of(node, call);
      if (all > wanted) replies.back() = co_await node.wait_again(all, call);
    }
    if (auto* other = sent_on(script, node, replies.front())) {
      if (wanted > 0) wanted = co_await replicas_of(*other, call);
      replies = co_await other->run_asking(script, keys, args, wanted, call);
    }
    co_return replies;
  };
  auto response = co_await asked(lock, ask, call);
  if (wanted > 0) {
    const auto& replicas = response.replies.back();
    if (replicas.is_error() && !response.reply().is_error()) {
      throw response.node->failure(replicas);
    }
    response.acknowledged = replicas.integer;
  }
  co_return response;
}

asio::awaitable<Response> Route::exchange(const LockName& lock,
                                          std::vector<Command> commands, Call call) {
  const Ask ask = [&](Node& node) { return node.exchange(commands, call); };
  co_return co_await asked(lock, ask, call);
}

// A script derives its other keys from the first one.
std::vector<std::string> Route::keys_for(const Script&, const LockName& lock) const {
  std::vector<std::string> keys;
  keys.push_back(key_of(lock));
  return keys;
}

}  // namespace dlock::redis
