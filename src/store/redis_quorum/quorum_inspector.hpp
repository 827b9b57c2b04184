// A look at the locks of several servers at once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lock/inspector.hpp"
#include "store/redis_quorum/member.hpp"

namespace dlock::redis_quorum {

// What most servers show counts (merge.hpp). Throws Failure where too few answer.
class QuorumInspector final : public LockInspector {
 public:
  QuorumInspector(const Members& members, milliseconds timeout)
      : members_(members), timeout_(timeout) {}

  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockInfo>> list(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup) override;
  asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockHistory>> histories(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup) override;
  // Tells of what most servers tell of.
  asio::awaitable<void> watch(const Watched& watched, EventSink& sink,
                              Wakeup& wakeup) override;

 private:
  Members members_;
  milliseconds timeout_;
};

}  // namespace dlock::redis_quorum
