// Reads the locks of several servers at once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lock/inspector.hpp"
#include "store/redis_quorum/complaints.hpp"
#include "store/redis_quorum/member.hpp"

namespace dlock::redis_quorum {

// Reports what a majority of servers shows (merge.hpp). Throws Failure if too few reply.
class QuorumInspector final : public LockInspector {
 public:
  QuorumInspector(const Members& members, milliseconds timeout,
                  std::shared_ptr<Complaints> complaints)
      : members_(members), timeout_(timeout), complaints_(std::move(complaints)) {}

  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockInfo>> list(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup) override;
  asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockHistory>> histories(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup) override;
  // Reports the events that a majority of servers reports.
  asio::awaitable<void> watch(const Watched& watched, EventSink& sink,
                              Wakeup& wakeup) override;

 private:
  Members members_;
  milliseconds timeout_;
  std::shared_ptr<Complaints> complaints_;
};

}  // namespace dlock::redis_quorum
