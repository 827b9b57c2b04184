#include "store/redis_sentinel/sentinel_route.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <deque>
#include <map>
#include <utility>

#include "store/redis/redis_connection.hpp"
#include "store/redis/redis_store.hpp"

namespace dlock::redis_sentinel {
namespace {

// For how long the replies of sentinels count as current.
constexpr milliseconds fresh_for{500};

bool is_elected(const std::vector<SentinelBallot>& ballots) {
  return elected(ballots).has_value();
}

class SentinelInquiry final : public redis::Inquiry {
 public:
  SentinelInquiry(asio::io_context& context, const StoreUrl& url, ServerAddress address,
                  unsigned& replicas, Clock::time_point until)
      : address_(std::move(address)),
        replicas_(replicas),
        discovery_(context, url, url.replicas.all, until) {}

  asio::awaitable<Opinion> opinion(Call call) override {
    const auto is_sure = [this](const std::vector<SentinelBallot>& ballots) {
      return is_certain(address_, ballots);
    };
    co_await discovery_.wait(is_sure, call);
    const auto opinion = opinion_on(address_, discovery_.ballots());
    if (opinion == Opinion::confirmed) {
      replicas_ = replicas_up(address_, discovery_.ballots());
    }
    co_return opinion;
  }

 private:
  ServerAddress address_;
  unsigned& replicas_;  // how many are up, for the next request
  Discovery discovery_;
};

Failure failure_of(const Reply& reply, const redis::Target& sentinel) {
  const auto name = sentinel.shown();
  const bool is_server = reply.text.find("unknown command") != std::string::npos;
  if (!reply.is_error() || is_server) {
    return Failure::misconfigured(name + " is not a sentinel: for a single server, use " +
                                  (sentinel.tls ? "rediss" : "redis") + "://" + name);
  }
  if (reply.error_code() == "NOAUTH") {
    return redis::password_required(name, sentinel.password_options);
  }
  return redis::failure_from(reply, name);
}

class SentinelRoute final : public redis::Route {
 public:
  SentinelRoute(asio::io_context& context, StoreUrl url, milliseconds timeout)
      : Route(timeout), context_(context), url_(std::move(url)) {}

  asio::awaitable<std::vector<redis::Node*>> all(Call call) override {
    const LockName any;  // the primary has all locks
    auto* primary = co_await open(any, call);
    co_return std::vector<redis::Node*>{primary};
  }

  bool fails_over() const override { return true; }
  std::unique_ptr<redis::Inquiry> inquire(const redis::Node& node,
                                          Clock::time_point since,
                                          Clock::time_point until) override {
    const bool is_fresh = Clock::now() - discovered_at_ < fresh_for;
    if (&node == primary_ && discovered_at_ >= since && is_fresh) return nullptr;
    return std::make_unique<SentinelInquiry>(context_, url_, node.target().address(),
                                             replicas_up_, until);
  }

  asio::awaitable<std::optional<ServerAddress>> owner_by_others(
      const LockName& /*lock*/, const redis::Node& /*node*/, Call call) override {
    Discovery discovery(context_, url_, false, call.until);
    co_await discovery.wait(is_elected, call);
    co_return elected(discovery.ballots());
  }

 private:
  asio::awaitable<redis::Node*> node_for(const LockName& /*lock*/, Call call) override {
    if (primary_ != nullptr && !primary_->is_suspect()) co_return primary_;
    const auto* last = std::exchange(primary_, nullptr);
    Discovery discovery(context_, url_, url_.replicas.all, call.until);
    // If there is a last primary to fall back on, it needs the rest of the time.
    co_await discovery.wait(is_elected, last == nullptr ? call : call.share(2));
    if (url_.replicas.all) {
      // Other sentinels may know more replicas, but a silent one must not use up the
      // budget.
      const auto never = [](const std::vector<SentinelBallot>&) { return false; };
      co_await discovery.wait(never, call.within(timeout() / 5));
    }
    const auto names = names_of(url_.servers);
    if (const auto twins = same_sentinel(names, discovery.ballots())) throw *twins;
    const auto address = elected(discovery.ballots());
    if (!address) {
      // A healthy primary protects its locks even if the sentinels do not reply.
      if (last != nullptr &&
          !is_other_named(last->target().address(), discovery.ballots())) {
        primary_ = &node_at(last->target().address());
        primary_->trust();
        co_return primary_;
      }
      throw no_primary_elected(url_.master, names, discovery.ballots());
    }
    primary_ = &node_at(*address);
    primary_->trust();
    discovered_at_ = discovery.began();
    replicas_up_ = replicas_up(*address, discovery.ballots());
    co_return primary_;
  }

  // At least one: with none, no other server would know the lease. Sentinels show no
  // replica with `replica-announced no`, but may promote it, and take two that are
  // announced with one address for one; and WAIT counts any replica.
  asio::awaitable<unsigned> replicas_of(redis::Node& node, Call /*call*/) override {
    co_return url_.replicas.all ? std::max({replicas_up_, node.connected(), 1U})
                                : url_.replicas.count;
  }

  Then then(const LockName& /*lock*/, redis::Node& node,
            const Reply& /*reply*/) override {
    return node.is_suspect() ? Then::ask_again : Then::done;
  }

  bool has_others() const override { return true; }

  redis::Node& node_at(const ServerAddress& address) {
    auto& node = nodes_[address];
    if (!node) {
      auto target = redis::login_target(url_).at(address);
      target.mapped_from = url_.addresses.announced_for(address);
      target.announced_by = announced_by;
      node = std::make_unique<redis::Node>(context_, std::move(target), timeout(),
                                           redis::Role::primary);
    }
    return *node;
  }

  asio::io_context& context_;
  StoreUrl url_;
  std::map<ServerAddress, std::unique_ptr<redis::Node>> nodes_;  // never removed
  redis::Node* primary_ = nullptr;
  Clock::time_point discovered_at_{};  // when the sentinels were asked
  unsigned replicas_up_ = 0;           // as of then
};

}  // namespace

using redis::Command;

struct Discovery::State {
  struct Sentinel {
    Sentinel(asio::io_context& context, const redis::Target& at)
        : target(at), connection(context, at), wakeup(context) {}

    redis::Target target;
    redis::RedisConnection connection;
    Wakeup wakeup;
  };

  std::deque<Sentinel> sentinels;
  AddressMap addresses;
  std::vector<SentinelBallot> ballots;
  std::vector<Command> question;
  Clock::time_point until;
  Wakeup* awaited_by = nullptr;
};

Discovery::Discovery(asio::io_context& context, const StoreUrl& url, bool with_replicas,
                     Clock::time_point until)
    : state_(std::make_shared<State>()) {
  state_->until = until;
  state_->addresses = url.addresses;
  state_->ballots.resize(url.servers.size());
  state_->question.push_back({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", url.master});
  if (with_replicas) state_->question.push_back({"SENTINEL", "REPLICAS", url.master});
  state_->question.push_back({"SENTINEL", "MYID"});
  for (const auto& target : redis::sentinels_of(url))
    state_->sentinels.emplace_back(context, target);
  for (std::size_t i = 0; i < url.servers.size(); ++i) {
    asio::co_spawn(context, ask(state_, i), [](const std::exception_ptr&) {});
  }
}

Discovery::~Discovery() {
  state_->awaited_by = nullptr;
  for (auto& sentinel : state_->sentinels) sentinel.wakeup.give_up(true);
}

const std::vector<SentinelBallot>& Discovery::ballots() const { return state_->ballots; }

asio::awaitable<void> Discovery::ask(std::shared_ptr<State> state, std::size_t number) {
  auto& sentinel = state->sentinels[number];
  auto& ballot = state->ballots[number];
  try {
    const Call call{state->until, sentinel.wakeup};
    auto replies = co_await sentinel.connection.exchange(state->question, call);
    ballot.id = id_from(replies.back());
    replies.pop_back();
    const auto vote = vote_from(replies);
    if (const auto* valid = std::get_if<PrimaryVote>(&vote)) {
      ballot.vote = translated(*valid, state->addresses);
    } else {
      ballot.failure = failure_of(std::get<Reply>(vote), sentinel.target);
    }
  } catch (const Failure& failure) {
    ballot.failure = failure;
  }
  sentinel.connection.close();
  if (state->awaited_by != nullptr) state->awaited_by->notify();
}

asio::awaitable<void> Discovery::wait(
    std::function<bool(const std::vector<SentinelBallot>&)> is_certain, Call call) {
  const auto state = state_;
  const auto is_answered = [&] {
    for (const auto& ballot : state->ballots) {
      if (ballot.is_open()) return false;
    }
    return true;
  };
  state->awaited_by = &call.wakeup;
  while (!is_answered() && !is_certain(state->ballots) && !call.is_over()) {
    if (call.wakeup.gives_up()) break;
    co_await call.wait();
  }
  state->awaited_by = nullptr;
  if (call.wakeup.gives_up()) throw Failure::interrupted("sentinels: interrupted");
}

std::unique_ptr<Store> open(const StoreUrl& url, milliseconds timeout,
                            asio::io_context& context) {
  return redis::store_of(context, url.text(),
                         std::make_unique<SentinelRoute>(context, url, timeout));
}

}  // namespace dlock::redis_sentinel
