// Where the keys of a lock are, and asking there.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "store/redis/node.hpp"

namespace dlock::redis {

// What a server says, and which one.
struct Response {
  Node* node = nullptr;
  std::vector<Reply> replies;  // one for each command
  // How many replicas have what was written, if that was waited for.
  std::int64_t acknowledged = 0;

  const Reply& reply() const { return replies.front(); }
  Failure failure() const { return node->failure(reply()); }
};

// Whether what is written has to be on replicas, too, before it counts.
enum class Durability { one_server, replicas };

// What those say who know which server is the primary.
enum class Word {
  confirmed,  // most of all that are configured name it
  denied,     // most of those that answer name another one
  unknown,
};

// A question to them that is under way.
class Inquiry {
 public:
  virtual ~Inquiry() = default;

  // As soon as it is certain, or `until` at the latest. Throws Failure (interrupted).
  virtual asio::awaitable<Word> word(Clock::time_point until, Wakeup& wakeup) = 0;
};

// What leads each request to the server that has the lock's keys at that moment. Servers
// are never forgotten: a Node stays where it is for as long as its route.
class Route {
 public:
  // What there is to do about a reply.
  enum class Then {
    done,
    ask_again,  // nothing was done; after a pause
    follow,     // nothing was done; another server is known to have the keys
  };

  explicit Route(milliseconds timeout) : timeout_(timeout) {}
  virtual ~Route() = default;
  Route(const Route&) = delete;
  Route& operator=(const Route&) = delete;

  // The budget of one operation.
  milliseconds timeout() const { return timeout_; }
  Clock::time_point budget_end() const { return later(Clock::now(), timeout_); }

  // The server that has the keys of this lock, connected. Throws Failure like
  // Connection::open(), with the last reason if several were tried.
  asio::awaitable<Node*> open(const LockName& lock, Clock::time_point until,
                              Wakeup& wakeup);

  // Runs a script on the keys of a lock, where they are. It is repeated where a server
  // says that it was not executed because it is not the one, or not now; what may have
  // been executed is not. Throws Failure like open(); an error of the script is a reply.
  asio::awaitable<Response> run(const Script& script, const LockName& lock,
                                std::vector<std::string> args, Clock::time_point until,
                                Wakeup& wakeup,
                                Durability durability = Durability::one_server);

  // The same within the budget of one operation.
  asio::awaitable<Response> run(const Script& script, const LockName& lock,
                                std::vector<std::string> args, Wakeup& wakeup);

  // Sends commands that concern the keys of a lock, and may be repeated, to where these
  // are. Throws Failure likewise; errors are replies.
  asio::awaitable<Response> exchange(const LockName& lock, std::vector<Command> commands,
                                     Clock::time_point until, Wakeup& wakeup);
  asio::awaitable<Response> exchange(const LockName& lock, std::vector<Command> commands,
                                     Wakeup& wakeup);

  // The keys that a script is declared to use.
  virtual std::vector<std::string> keys_for(const Script& script,
                                            const LockName& lock) const;

  // On how many replicas of the server a grant has to be before it counts, by what is
  // known now. Throws Failure.
  virtual asio::awaitable<unsigned> replicas_of(Node& /*node*/,
                                                Clock::time_point /*until*/,
                                                Wakeup& /*wakeup*/) {
    co_return 0;
  }

  // All servers that have keys of locks. Throws Failure likewise.
  virtual asio::awaitable<std::vector<Node*>> all(Clock::time_point until,
                                                  Wakeup& wakeup) = 0;

  // Whether another server can have the lock's keys from one moment to the next, and the
  // old one not know of it.
  virtual bool fails_over() const { return false; }

  // Asks those who know whether this is the primary; null where nobody does. The answer
  // to a question that was put after `since` is as good as one that is put now.
  virtual std::unique_ptr<Inquiry> inquire(const Node& /*node*/,
                                           Clock::time_point /*since*/,
                                           Clock::time_point /*until*/) {
    return nullptr;
  }

 private:
  using Ask = std::function<asio::awaitable<std::vector<Reply>>(Node&)>;
  asio::awaitable<Response> asked(const LockName& lock, const Ask& ask,
                                  Clock::time_point until, Wakeup& wakeup);

  // The server, as far as is known; contacts only others that know. Throws Failure.
  virtual asio::awaitable<Node*> node_for(const LockName& lock, Clock::time_point until,
                                          Wakeup& wakeup) = 0;

  // What to make of a reply.
  virtual Then then(const LockName& /*lock*/, Node& /*node*/, const Reply& /*reply*/) {
    return Then::done;
  }

  // The server that a reply asks to put just this request to, and no other; null if that
  // is not to be done.
  virtual Node* sent_on(const Script& /*script*/, Node& /*node*/,
                        const Reply& /*reply*/) {
    return nullptr;
  }

  // Whether another server may be there for one that cannot be reached.
  virtual bool has_others() const { return false; }

  milliseconds timeout_;
};

// One server has them all.
class SoleRoute final : public Route {
 public:
  SoleRoute(asio::io_context& context, Target target, milliseconds timeout,
            Role role = Role::any)
      : Route(timeout), node_(context, std::move(target), timeout, role) {}

  const Node& node() const { return node_; }

  asio::awaitable<std::vector<Node*>> all(Clock::time_point, Wakeup&) override {
    co_return std::vector<Node*>{&node_};
  }

 private:
  asio::awaitable<Node*> node_for(const LockName&, Clock::time_point, Wakeup&) override {
    co_return &node_;
  }

  Node node_;
};

}  // namespace dlock::redis
