// Looks at the locks on Redis or Valkey servers.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "lock/store.hpp"
#include "store/redis/reply.hpp"
#include "store/redis/route.hpp"

namespace dlock::redis {

class RedisInspector final : public LockInspector {
 public:
  // `route` must outlive this.
  explicit RedisInspector(Route& route) : route_(route) {}

  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockInfo>> list(const std::string& name_space,
                                              NameFilter matches,
                                              Wakeup& wakeup) override;
  asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockHistory>> histories(const std::string& name_space,
                                                      NameFilter matches,
                                                      Wakeup& wakeup) override;
  asio::awaitable<void> watch(const Watched& watched, EventSink& sink,
                              Wakeup& wakeup) override;
  std::vector<Failure> left_out() const override { return left_out_; }

 private:
  class Watching;
  class NameSearch;

  asio::awaitable<void> look_at(Node& node, const std::set<LockName>& names,
                                const Script& script,
                                std::function<bool(const LockName&, const Reply&)> take,
                                Call call);
  asio::awaitable<void> look_at_all(
      const std::string& name_space, const NameFilter& matches, const Script& script,
      const std::function<bool(const LockName&, const Reply&)>& take, Wakeup& wakeup);

  void note_damage(const LockHistory& history);

  Route& route_;
  std::vector<Failure> left_out_;
};

}  // namespace dlock::redis
