// A Redis server in memory: the commands that dlock and its scripts use, and the scripts
// themselves in an interpreter of Lua.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "store/redis/node.hpp"
#include "store/redis/reply.hpp"
#include "tests/simulation/kernel.hpp"
#include "tests/simulation/server_group.hpp"

namespace dlock::simulation {

using Words = std::vector<std::string>;

class RedisServer final : public Peer {
 public:
  struct SortedSet {
    std::map<std::string, double> scores;
    std::set<std::pair<double, std::string>> order;
  };
  using List = std::deque<std::string>;
  using Hash = std::map<std::string, std::string>;
  struct Value {
    std::variant<std::string, List, Hash, SortedSet> of;
    std::optional<std::int64_t> expires{};  // ms by its clock
  };
  using Data = std::map<std::string, Value>;

  // `group`: where others can take over.
  explicit RedisServer(Executed executed, std::shared_ptr<ServerGroup> group = nullptr);

  void received(const std::shared_ptr<Connection>& from, std::string_view bytes) override;
  void closed(const std::shared_ptr<Connection>& by) override;

  void crash() override;  // and loses its data, unless it is in a group
  void start() override;
  void pause(Time span) override;
  void disturb(Time span) override;
  Leases leases(const std::string& of) override;

  redis::Reply execute(const Words& words);  // one command, also of a script

  const Data& data() const { return values_; }
  void take(Data data) { values_ = std::move(data); }
  bool has(const std::string& key);
  bool runs() const { return is_up && paused_until <= Kernel::current()->now; }
  // Moves so many keys to another server. Returns whether there are no more.
  bool move_keys(RedisServer& to, std::uint64_t count);
  void drop_clients();
  // Those who wait for a list get this reply.
  void end_waits(const redis::Reply& reply);

  // Whether scripts run as they are written, and not in the form that is quicker.
  static inline bool runs_scripts_literally = false;

 private:
  struct Client {
    std::shared_ptr<Connection> connection;
    std::string bytes;
    Words waits_for;            // the lists of BLPOP
    std::uint64_t waiting = 0;  // the number of that wait
    bool asks = false;          // with the next command
  };

  Value* value_at(const std::string& key);
  template <typename Kind>
  Kind* find_as(const std::string& key);
  template <typename Kind>
  Kind& made_as(const std::string& key);
  void drop_if_empty(const std::string& key);

  void proceed(Client& client);
  static void trace(const Process& by, const Words& words, const std::string& reply);
  std::optional<Words> next_command(Client& client);
  std::string top_level(Client& client, const Words& words);
  redis::Reply evaluate(const Words& words, bool by_text);
  void wait_for_element(Client& client, const Words& words);
  bool pop(Client& client);
  void serve_waiting();
  redis::Reply on_list(const Words& words);
  redis::Reply on_hash(const Words& words);
  redis::Reply on_set(const Words& words);

  Executed executed_;
  std::shared_ptr<ServerGroup> group_;
  Data values_;
  std::set<const redis::Script*> loaded_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::uint64_t waits_ = 0;
  Time started_ = 0;
  std::string run_id_;
  const redis::Script* script_ = nullptr;  // that this command has run
  std::int64_t moment_ = 0;                // of the command that is executed
};

}  // namespace dlock::simulation
