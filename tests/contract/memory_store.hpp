// A store in the memory of one process, built on the rules: the smallest complete store.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lock/store.hpp"
#include "rules/limit.hpp"
#include "rules/liveness.hpp"

namespace dlock {

// What all clients share.
struct MemoryService final : rules::Liveness {
  bool is_alive(const rules::Holder& holder) const override {
    return clients.count(holder.party.session) > 0;
  }
  bool is_alive(const rules::Waiter& waiter) const override {
    return clients.count(waiter.party.session) > 0;
  }
  bool is_stopped(const rules::Waiter&) const override { return false; }

  // Carries out the consequences of a change of the lock.
  void carry_out(rules::State& state, const rules::Consequences& consequences);
  void wake(rules::Session session);

  // Makes all holders of the lock check their leases.
  void tell_holders(const LockName& lock);

  struct Stored {
    std::string bytes;
    Clock::time_point stored_at;
    Clock::time_point fresh_until;
    Clock::time_point there_until;
  };

  std::map<LockName, rules::State> locks;
  std::map<rules::Session, Wakeup*> clients;  // the living ones, and what wakes them
  std::map<rules::Session, std::pair<LockName, std::function<void()>>> listeners;
  std::map<LockName, rules::LimitState> limits;
  std::map<LockName, Fence> registers;
  std::map<LockName, Stored> values;
  rules::Session last_session = 0;
  bool is_held_up = false;  // gives no answers
};

// One client. Its attached leases and its places in queues end with it, as those of a
// process do.
class MemoryStore final : public Store,
                          private LockInspector,
                          private ValueStore,
                          private RateLimits,
                          private FenceRegisters {
 public:
  MemoryStore(MemoryService& service, milliseconds timeout)
      : service_(service), timeout_(timeout) {}

  std::string url() const override { return "memory:"; }
  bool leases_expire() const override { return false; }
  std::unique_ptr<Claimant> claimant(const Claim& claim) override;
  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const Break& order,
                                                    Wakeup& wakeup) override;
  LockInspector& inspector() override { return *this; }
  ValueStore* values() override { return this; }
  RateLimits* rates() override { return this; }
  FenceRegisters* registers() override { return this; }

  // Waits while the service gives no answers, but no longer than the timeout.
  asio::awaitable<void> reach(Wakeup& wakeup) const;

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

  MemoryService& service_;
  milliseconds timeout_;
  std::optional<std::pair<Token, RateAnswer>> admitted_;  // the last one, for repetitions
};

}  // namespace dlock
