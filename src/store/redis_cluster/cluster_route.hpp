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
#include "store/redis/reply.hpp"
#include "store/redis/route.hpp"
#include "store/redis/target.hpp"
#include "store/store_url.hpp"

namespace dlock::redis_cluster {

// What members report about each other, as plain functions on values.

// The address in "MOVED 3999 127.0.0.1:6381" or "ASK ..."; `by`, the sender, is used for
// a host that is left out. Nothing for other errors.
std::optional<ServerAddress> pointed_to(const redis::Reply& error,
                                        const ServerAddress& by);

// The primaries in the reply to CLUSTER SLOTS, each once, and how many slots they have.
// `by`, the sender, is used for a host that is left out.
struct Primaries {
  std::vector<ServerAddress> addresses;
  unsigned slots = 0;
};
constexpr unsigned all_slots = 16384;
std::optional<Primaries> primaries_from(const redis::Reply& slots,
                                        const ServerAddress& by);

// How many replicas of the sender of CLUSTER NODES a majority of primaries has not marked
// as failed. A replica that only the sender suspects counts: a primary that is cut off
// would suspect the replica that takes its place.
unsigned count_replicas_up(std::string_view nodes);

// A hint which member owned a lock last, so that the next run asks that member first
// instead of being redirected by another. It saves a connection, two round trips
// (on loopback a run without it takes 1.07 times as long: three masters, median of 120
// pairs), and decides nothing: it only selects among the servers that the URL names, and
// a wrong member redirects.

// The contents of a hint file, and back; nothing unless hint_text() could have written
// it.
std::string hint_text(const ServerAddress& address);
std::optional<ServerAddress> hint_from(std::string_view text);

// The name of the hint file for a lock of a URL. It reveals neither. The number of files
// for a URL is bounded, so that many locks do not fill the directory. Locks that share a
// file mislead each other, which costs no more than having no hint.
std::string hint_name(const std::string& url, const LockName& lock);

// $XDG_RUNTIME_DIR; empty if that is not an absolute path.
std::string runtime_directory();

// The file `name` in the folder `dlock` of a runtime directory. Folder and file are
// created when needed. A file that is not as dlock creates it (another owner, writable
// for others, a link, too long) is ignored and replaced by the next hint; a folder like
// that is left alone. Errors are ignored: a missing hint is not a failure.
class HintFile {
 public:
  // Touches no file yet. There are no hints if `runtime_directory` is empty.
  HintFile(std::string runtime_directory, std::string name)
      : runtime_directory_(std::move(runtime_directory)), name_(std::move(name)) {}

  std::optional<ServerAddress> read();

  // Stores a hint for later runs, atomically, and only if it differs from the one last
  // read or written.
  void write(const ServerAddress& address);

 private:
  std::string runtime_directory_;
  std::string name_;
  std::optional<ServerAddress> last_;
};

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
