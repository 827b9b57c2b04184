// Finds the server that has the keys of a lock, and sends requests to it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "loop/wakeup.hpp"
#include "store/redis/node.hpp"
#include "store/redis/target.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"

namespace dlock::redis {

// The replies of a server, and which server sent them.
struct Response {
  Node* node = nullptr;
  std::vector<Reply> replies;  // one for each command
  // How many replicas have acknowledged the write, if the request waited for that.
  std::int64_t acknowledged = 0;

  const Reply& reply() const { return replies.front(); }
  Failure failure() const { return node->failure(reply()); }

  // What was read from the reply. Throws its Failure if nothing was.
  template <typename T>
  T checked(std::optional<T> read) const {
    if (!read) throw failure();
    return std::move(*read);
  }
};

// Whether a write counts only once replicas have acknowledged it.
enum class Durability { one_server, replicas };

// What the sentinels report about which server is the primary.
enum class Opinion {
  confirmed,  // a majority of all configured sentinels names it
  denied,     // a majority of those that replied names another one
  unknown,
};

// A question to them that is in progress.
class Inquiry {
 public:
  virtual ~Inquiry() = default;

  // Returns as soon as the result is certain, at the latest at `until`. Throws Failure
  // (interrupted).
  virtual asio::awaitable<Opinion> opinion(Call call) = 0;
};

// Sends each request to the server that has the lock's keys at that moment. A Node stays
// valid for the lifetime of its route.
class Route {
 public:
  // What to do about a reply.
  enum class Then {
    done,
    ask_again,  // the request was not executed; repeat it after a pause
    follow,     // the request was not executed; another server has the keys
  };

  explicit Route(milliseconds timeout) : timeout_(timeout) {}
  virtual ~Route() = default;
  Route(const Route&) = delete;
  Route& operator=(const Route&) = delete;

  // The budget of one operation.
  milliseconds timeout() const { return timeout_; }
  Call new_call(Wakeup& wakeup) const { return wakeup.within(timeout_); }

  // The server that has the keys of this lock, connected. A connection that is refused is
  // tried again (Backoff). Throws Failure like RedisConnection::open(), with the
  // last reason if several were tried.
  asio::awaitable<Node*> open(const LockName& lock, Call call);

  // Runs a script on the keys of a lock. It is repeated if a server reports that it did
  // not execute the script because the keys are elsewhere, it is not ready, or it has no
  // room for the connection; a script that may have been executed is never repeated.
  // Throws Failure like open(); an error of the script is a reply. With a wakeup in the
  // place of the call, the budget is that of one operation.
  asio::awaitable<Response> run(const Script& script, const LockName& lock,
                                std::vector<std::string> args, Call call,
                                Durability durability = Durability::one_server);
  asio::awaitable<Response> run(const Script& script, const LockName& lock,
                                std::vector<std::string> args, Wakeup& wakeup) {
    return run(script, lock, std::move(args), new_call(wakeup));
  }

  // Sends commands on the keys of a lock, which must be safe to repeat. Throws Failure
  // like open(); errors are replies.
  asio::awaitable<Response> exchange(const LockName& lock, std::vector<Command> commands,
                                     Call call);
  asio::awaitable<Response> exchange(const LockName& lock, std::vector<Command> commands,
                                     Wakeup& wakeup) {
    return exchange(lock, std::move(commands), new_call(wakeup));
  }

  // The keys to declare for a script.
  virtual std::vector<std::string> keys_for(const Script& script,
                                            const LockName& lock) const;

  // How many replicas of the server must acknowledge a grant before it counts, by current
  // knowledge. Throws Failure.
  virtual asio::awaitable<unsigned> replicas_of(Node& /*node*/, Call /*call*/) {
    co_return 0;
  }

  // All servers that have keys of locks. Throws Failure like open().
  virtual asio::awaitable<std::vector<Node*>> all(Call call) = 0;

  // Whether another server can take over the lock's keys without the old one noticing.
  virtual bool fails_over() const { return false; }

  // Asks the sentinels whether this is the primary; null where there are none. A reply to
  // a question that was asked after `since` is recent enough.
  virtual std::unique_ptr<Inquiry> inquire(const Node& /*node*/,
                                           Clock::time_point /*since*/,
                                           Clock::time_point /*until*/) {
    return nullptr;
  }

  // Which server has the lock's keys, according to others than `node`: the sentinels, or
  // another member. Nothing if they do not say. The next request that finds `node`
  // suspect goes there. Uses nothing of the route any more once `wakeup` gives up. Throws
  // Failure like open().
  virtual asio::awaitable<std::optional<ServerAddress>> owner_by_others(
      const LockName& /*lock*/, const Node& /*node*/, Call /*call*/) {
    co_return std::nullopt;
  }

 private:
  Sent way_to_send(const Script& script, const Node& node) const;

  using Ask = std::function<asio::awaitable<std::vector<Reply>>(Node&)>;
  asio::awaitable<Response> asked(const LockName& lock, const Ask& ask, Call call);

  // The server believed to have the keys; may contact other servers to find it. Throws
  // Failure.
  virtual asio::awaitable<Node*> node_for(const LockName& lock, Call call) = 0;

  // What to make of a reply.
  virtual Then then(const LockName& /*lock*/, Node& /*node*/, const Reply& /*reply*/) {
    return Then::done;
  }

  // The server to which a reply redirects only this request (ASK); null if it does not,
  // or if the script must not follow.
  virtual Node* sent_on(const Script& /*script*/, Node& /*node*/,
                        const Reply& /*reply*/) {
    return nullptr;
  }

  // Whether another server may take the place of one that cannot be reached.
  virtual bool has_others() const { return false; }

  milliseconds timeout_;
  // Of scripts that replicas had to confirm: the first server that ran one, and the last
  // one that ran each.
  const Node* first_ = nullptr;
  std::map<const Script*, const Node*> ran_on_;
};

// The route to a single server that has all keys.
class SoleRoute final : public Route {
 public:
  SoleRoute(asio::io_context& context, Target target, milliseconds timeout,
            Role role = Role::any)
      : Route(timeout), node_(context, std::move(target), timeout, role) {}

  const Node& node() const { return node_; }

  asio::awaitable<std::vector<Node*>> all(Call call) override {
    co_await node_.require_alone(call);
    co_return std::vector<Node*>{&node_};
  }

 private:
  asio::awaitable<Node*> node_for(const LockName&, Call) override { co_return &node_; }

  Node node_;
};

}  // namespace dlock::redis
