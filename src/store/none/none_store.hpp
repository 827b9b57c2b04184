// No store: grants everything, remembers nothing.
#pragma once

#include "lock/store.hpp"
#include "store/store_url.hpp"

namespace dlock::none {

// For development, and for switching locking off without editing a crontab.
class NoneStore final : public Store,
                        private LockInspector,
                        private ValueStore,
                        private RateLimits,
                        private FenceRegisters {
 public:
  std::string url() const override { return "none:"; }
  bool protects() const override { return false; }
  bool leases_expire() const override { return false; }
  std::unique_ptr<Claimant> claimant(const Claim& claim) override;
  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const Break& order,
                                                    Wakeup& wakeup) override;
  LockInspector& inspector() override { return *this; }
  ValueStore* values() override { return this; }
  RateLimits* rates() override { return this; }
  FenceRegisters* registers() override { return this; }

 private:
  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockInfo>> list(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup) override;
  asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                Wakeup& wakeup) override;

  asio::awaitable<ValueLookup> get(const LockName& lock, std::size_t most,
                                   Wakeup& wakeup) override;
  asio::awaitable<ValueLook> describe(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<Storing> put(const Claim& claim, const std::string& bytes,
                               Lifetime lifetime, Wakeup& wakeup) override;
  asio::awaitable<void> forget(const LockName& lock, Wakeup& wakeup) override;

  asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<LimitInfo> look(const LockName& limit, Wakeup& wakeup) override;
  asio::awaitable<void> reset(const LockName& limit, Wakeup& wakeup) override;

  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;
};

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

}  // namespace dlock::none
