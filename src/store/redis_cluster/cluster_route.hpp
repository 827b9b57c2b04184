// The route to the member of a cluster that has the slot of a lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/lease.hpp"
#include "store/redis/route.hpp"
#include "store/redis/target.hpp"
#include "store/redis_cluster/cluster_members.hpp"
#include "store/store_url.hpp"

namespace dlock::redis_cluster {

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
               std::string runtime_directory = {});

  asio::awaitable<std::vector<redis::Node*>> all(Call call) override;
  std::vector<std::string> keys_for(const redis::Script& script,
                                    const LockName& lock) const override;
  bool fails_over() const override { return true; }
  asio::awaitable<std::optional<ServerAddress>> owner_by_others(const LockName& lock,
                                                                const redis::Node& node,
                                                                Call call) override;

 private:
  asio::awaitable<redis::Node*> node_for(const LockName& lock, Call call) override;
  asio::awaitable<unsigned> replicas_of(redis::Node& node, Call call) override;
  Then then(const LockName& lock, redis::Node& node, const redis::Reply& reply) override;
  redis::Node* sent_on(const redis::Script& script, redis::Node& node,
                       const redis::Reply& reply) override;
  bool has_others() const override { return true; }

  asio::awaitable<redis::Node*> owner_by(redis::Node& member, const LockName& lock,
                                         Call call);
  std::optional<ServerAddress> owner_in(const redis::Reply& reply,
                                        const redis::Target& by) const;
  bool is_seed(const ServerAddress& address) const;
  redis::Node& node_at(const ServerAddress& address);
  redis::Node& member_to_ask();
  const redis::Node* other_than(const redis::Node& node);
  void follow_hint(const LockName& lock);
  void note_owner(const LockName& lock, redis::Node& owner);

  asio::io_context& context_;
  StoreUrl url_;
  std::map<ServerAddress, std::unique_ptr<redis::Node>>
      nodes_;  // all that there ever were
  std::map<LockName, redis::Node*> owners_;
  std::string runtime_directory_;
  std::map<LockName, HintFile> hints_;  // of those that were asked for
  std::map<ServerAddress, std::unique_ptr<redis::Node>>::iterator
      asked_;              // last, of nodes_
  ServerAddress witness_;  // the member that owner_by_others() asked last
};

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

}  // namespace dlock::redis_cluster
