#include "store/redis_cluster/cluster_route.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "store/redis/records.hpp"
#include "store/redis/redis_connection.hpp"
#include "store/redis/redis_health.hpp"
#include "store/redis/redis_store.hpp"
#include "store/redis_cluster/cluster_members.hpp"
#include "util/text.hpp"

namespace dlock::redis_cluster {
namespace {

using redis::Node;
using redis::Reply;
using redis::ReplyClass;

struct ClusterFacts {
  std::optional<Failure> failure;  // why the primaries are not known
  std::vector<redis::RedisFacts> primaries;
};

void reachable(const ClusterFacts& facts, CheckReport& say) {
  if (!facts.failure) return;
  say.error(facts.failure->what(),
            "name several members in the store URL, and check that they run and accept "
            "connections from this machine");
}

void primaries(const ClusterFacts& facts, CheckReport& say) {
  std::vector<std::string> names;
  for (const auto& primary : facts.primaries) names.push_back(primary.server);
  say.ok(names.size(), ", serving all slots: ", listed(names));
}

void failover(const ClusterFacts& facts, CheckReport& say) {
  // The longest time after which a member considers another one dead.
  std::optional<milliseconds> timeout;
  for (const auto& primary : facts.primaries) {
    timeout =
        std::max(timeout, redis::milliseconds_from(primary.said("cluster-node-timeout")));
  }
  judge_failover(timeout, "cluster-node-timeout",
                 "CONFIG SET cluster-node-timeout 5000 on each member, or a longer --ttl",
                 say);
}

void clocks(const ClusterFacts& facts, CheckReport& say) {
  judge_clocks(servers_of(facts.primaries), say);
}

constexpr Check<ClusterFacts> checks[] = {{"reachable", reachable, "", true},
                                          {"primaries", primaries},
                                          {"failover", failover},
                                          {"clocks", clocks}};

// It asks one member after the other until one replies and says where the lock is
// (MOVED). It remembers that member until the member redirects or fails. It keeps no map
// of all slots: most processes use one lock. The first member it asks is the last known
// owner, if the URL names that member and a hint exists (ClusterHint).
//
// While a slot is being migrated, some keys of a lock may be on one member and some on
// the other, and a script that saw only a part could grant a held lock. Each script
// therefore declares a key that never exists, which makes both members refuse the
// script before its first line. Only the renewal, which uses only keys that each held
// lock has, follows the migration (ASK).
class ClusterRoute final : public redis::Route {
 public:
  // `runtime_directory` is where hints are stored; empty: no hints.
  ClusterRoute(asio::io_context& context, StoreUrl url, milliseconds timeout,
               std::string runtime_directory = {})
      : Route(timeout),
        context_(context),
        url_(std::move(url)),
        runtime_directory_(std::move(runtime_directory)) {
    for (const auto& seed : url_.servers) node_at(seed);
    asked_ = nodes_.find(url_.servers.front());
  }

  // A member that is new in the cluster, or isolated, may know only itself.
  asio::awaitable<std::vector<Node*>> all(Call call) override {
    const LockName any;
    auto* member = co_await open(any, call);  // any member that replies
    redis::Command slots{"CLUSTER", "SLOTS"};
    const auto replies = co_await member->exchange(redis::alone(std::move(slots)), call);
    const auto primaries = primaries_from(replies.front(), member->target().address());
    if (!primaries) throw member->failure(replies.front());
    if (primaries->slots < all_slots) {
      throw Failure::unreachable(member->name() + ": the cluster serves " +
                                 std::to_string(primaries->slots) + " of " +
                                 std::to_string(all_slots) + " slots");
    }
    std::vector<Node*> nodes;
    for (const auto& address : primaries->addresses) {
      nodes.push_back(&node_at(url_.addresses.used_for(address)));
    }
    co_return nodes;
  }

  std::vector<std::string> keys_for(const redis::Script& script,
                                    const LockName& lock) const override {
    const auto key = redis::key_of(lock);
    std::vector<std::string> keys{key};
    if (&script == &redis::renew_script) {
      keys.push_back(key + ":h");
      keys.push_back(key + ":s");
    } else {
      keys.push_back(key + ":z");
    }
    return keys;
  }

  bool fails_over() const override { return true; }
  // Another member each time, because one may also be dead. Over a separate connection:
  // the others may be in use.
  asio::awaitable<std::optional<ServerAddress>> owner_by_others(const LockName& lock,
                                                                const Node& node,
                                                                Call call) override {
    const auto* member = other_than(node);
    if (member == nullptr) co_return std::nullopt;
    redis::RedisConnection connection(context_, member->target());
    const auto address = member->target().address();
    redis::Command exists{"EXISTS", redis::key_of(lock) + ":z"};
    const auto replies =
        co_await connection.exchange(redis::alone(std::move(exists)), call.share(4));
    if (call.wakeup.gives_up()) co_return std::nullopt;
    const auto sort = redis::class_of(replies.front());
    auto owner = owner_in(replies.front(), member->target());
    if (sort == ReplyClass::answer) owner = address;
    if (sort != ReplyClass::answer && sort != ReplyClass::moved) owner.reset();
    if (owner && *owner != node.target().address()) owners_[lock] = &node_at(*owner);
    co_return owner;
  }

 private:
  asio::awaitable<Node*> node_for(const LockName& lock, Call call) override {
    const auto known = owners_.find(lock);
    if (known != owners_.end()) {
      if (!known->second->is_suspect()) co_return known->second;
      owners_.erase(known);
    }
    if (!hints_.contains(lock)) follow_hint(lock);
    co_return co_await owner_by(member_to_ask(), lock, call);
  }

  // At least one: with none, no other server would know the lease. WAIT counts any
  // replica, also one that is no member.
  asio::awaitable<unsigned> replicas_of(Node& node, Call call) override {
    if (!url_.replicas.all) co_return url_.replicas.count;
    std::vector<redis::Command> questions{{"CLUSTER", "NODES"}, {"ROLE"}};
    const auto replies = co_await node.exchange(std::move(questions), call);
    const auto& nodes = replies[0];
    const auto& role = replies[1];
    if (nodes.kind != Reply::Kind::string) throw node.failure(nodes);
    if (role.is_error()) throw node.failure(role);
    co_return std::max({count_replicas_up(nodes.text), redis::replicas_in(role), 1U});
  }

  Then then(const LockName& lock, Node& node, const Reply& reply) override {
    switch (redis::class_of(reply)) {
      case ReplyClass::answer: note_owner(lock, node); return Then::done;
      case ReplyClass::moved: {
        const auto address = owner_in(reply, node.target());
        if (!address) return Then::done;
        auto& owner = node_at(*address);
        owner.trust();
        owners_[lock] = &owner;
        return Then::follow;
      }
      case ReplyClass::ask:
      case ReplyClass::not_now:
      case ReplyClass::not_primary: return Then::ask_again;
      case ReplyClass::refused: break;
    }
    return Then::done;
  }

  Node* sent_on(const redis::Script& script, Node& node, const Reply& reply) override {
    if (&script != &redis::renew_script || reply.error_code() != "ASK") return nullptr;
    const auto address = owner_in(reply, node.target());
    return address ? &node_at(*address) : nullptr;
  }

  bool has_others() const override { return true; }

  // Uses a command that changes nothing: a request that needs replicas must not go to a
  // member without the slot. Takes a part of the budget, so that a silent member leaves
  // time for the next.
  asio::awaitable<Node*> owner_by(Node& member, const LockName& lock, Call call) {
    redis::Command exists{"EXISTS", redis::key_of(lock) + ":z"};
    const auto replies =
        co_await member.exchange(redis::alone(std::move(exists)), call.share(3));
    const auto& reply = replies.front();
    auto* owner = &member;
    switch (redis::class_of(reply)) {
      case ReplyClass::answer:
      case ReplyClass::ask: break;  // it is migrating the slot, but still owns it
      case ReplyClass::moved: {
        const auto address = owner_in(reply, member.target());
        if (!address) throw member.failure(reply);
        owner = &node_at(*address);
        owner->trust();
        break;
      }
      case ReplyClass::not_now:
      case ReplyClass::not_primary:
      case ReplyClass::refused: member.distrust(); throw member.failure(reply);
    }
    owners_[lock] = owner;
    co_return owner;
  }

  // The address to which a reply points.
  std::optional<ServerAddress> owner_in(const Reply& reply,
                                        const redis::Target& by) const {
    auto address = pointed_to(reply, by.address());
    if (address) address = url_.addresses.used_for(std::move(*address));
    return address;
  }

  bool is_seed(const ServerAddress& address) const {
    return std::ranges::find(url_.servers, address) != url_.servers.end();
  }

  Node& node_at(const ServerAddress& address) {
    auto& node = nodes_[address];
    if (!node) {
      auto target = redis::login_target(url_).at(address);
      target.mapped_from = url_.addresses.announced_for(address);
      if (!is_seed(address)) target.announced_by = "the members of the cluster";
      node = std::make_unique<Node>(context_, std::move(target), timeout(),
                                    redis::Role::cluster_member);
    }
    return *node;
  }

  // The member that was asked last, unless it is suspect.
  Node& member_to_ask() {
    if (asked_->second->is_suspect()) {
      asked_->second->trust();  // when it is its turn again
      if (++asked_ == nodes_.end()) asked_ = nodes_.begin();
    }
    return *asked_->second;
  }

  // The next of the known members; null if there is no other.
  const Node* other_than(const Node& node) {
    auto next = nodes_.upper_bound(witness_);
    for (std::size_t i = 0; i < nodes_.size(); ++i, ++next) {
      if (next == nodes_.end()) next = nodes_.begin();
      if (next->second.get() == &node) continue;
      witness_ = next->first;
      return next->second.get();
    }
    return nullptr;
  }

  // Makes the last known owner the first member to ask.
  void follow_hint(const LockName& lock) {
    auto& file =
        hints_.try_emplace(lock, runtime_directory_, hint_name(url_.text(), lock))
            .first->second;
    const auto hint = file.read();
    const auto member = hint ? nodes_.find(*hint) : nodes_.end();
    if (member != nodes_.end()) asked_ = member;
  }

  void note_owner(const LockName& lock, Node& owner) {
    owners_[lock] = &owner;
    const auto file = hints_.find(lock);
    const auto address = owner.target().address();
    if (is_seed(address) && file != hints_.end()) file->second.write(address);
  }

  asio::io_context& context_;
  StoreUrl url_;
  using Nodes = std::map<ServerAddress, std::unique_ptr<Node>>;
  Nodes nodes_;  // all that there ever were
  std::map<LockName, Node*> owners_;
  std::string runtime_directory_;
  std::map<LockName, HintFile> hints_;  // of those that were asked for
  Nodes::iterator asked_;               // last, of nodes_
  ServerAddress witness_;               // the member that owner_by_others() asked last
};

}  // namespace

std::unique_ptr<Store> open(const StoreUrl& url, milliseconds timeout,
                            asio::io_context& context) {
  auto route = std::make_unique<ClusterRoute>(context, url, timeout, runtime_directory());
  return redis::store_of(context, url.text(), std::move(route));
}

asio::awaitable<Examination> examine(const ExaminationOrder& order) {
  ClusterFacts facts;
  ClusterRoute route(order.context, order.url, order.timeout);
  std::vector<redis::Target> targets;
  try {
    const auto primaries = co_await route.all(route.new_call(order.wakeup));
    for (auto* primary : primaries) targets.push_back(primary->target());
  } catch (const Failure& failure) {
    facts.failure = let_pass(failure);
  }
  facts.primaries =
      co_await redis::facts_of_all(order, std::move(targets), redis::needed_in_cluster);
  for (auto& primary : facts.primaries) primary.is_in_cluster = true;
  auto examination = judged(checks, facts);
  redis::add_examinations_of(facts.primaries, examination);
  co_return examination;
}

}  // namespace dlock::redis_cluster
