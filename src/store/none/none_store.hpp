// No store: grants everything, remembers nothing.
#pragma once

#include "lock/store.hpp"

namespace dlock::none {

// For development, and for switching locking off without editing a crontab.
class NoneStore final : public Store {
 public:
  std::string url() const override { return "none:"; }
  bool protects() const override { return false; }
  asio::awaitable<Answer> ask(const Claim& claim, Queue queue, Wakeup& wakeup) override;
  asio::awaitable<void> await_turn(const Claim& claim, Wakeup& wakeup,
                                   Clock::time_point until) override;
  asio::awaitable<Release> release(const Claim& claim, const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override;
  asio::awaitable<void> started(const Claim& claim, const CommandProcess& process,
                                Wakeup& wakeup) override;
  asio::awaitable<ValueLookup> get_value(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<Storing> put_value(const Claim& claim, const std::string& bytes,
                                     Lifetime lifetime, Wakeup& wakeup) override;
  asio::awaitable<void> forget_value(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<Renewal> renew(const Claim& claim, Wakeup& wakeup) override;
  void start_keeping(const Claim&, const Grant&, LeaseTiming, LeaseWatcher&) override {}
  void stop_keeping() override {}
  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const std::vector<Fence>& fences,
                                                    Wakeup& wakeup) override;
  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockInfo>> list(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup) override;
  asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                Wakeup& wakeup) override;
  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;
  asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) override;

 private:
  Grant grant_;
};

}  // namespace dlock::none
