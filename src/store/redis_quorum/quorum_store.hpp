// Locks on several servers that know nothing of each other.
//
// Each runs the scripts of one server, and has one vote. What the votes come to is
// decided in tally.hpp and ticket.hpp; what is here puts questions to all at once.
#pragma once

#include <memory>
#include <string>

#include "lock/store.hpp"
#include "store/redis_quorum/member.hpp"
#include "store/redis_quorum/plan.hpp"
#include "store/redis_quorum/quorum_inspector.hpp"

namespace dlock::redis_quorum {

// A fence is admitted if most servers answer and none has admitted a greater one.
class QuorumRegisters final : public FenceRegisters {
 public:
  QuorumRegisters(const Members& members, milliseconds timeout)
      : members_(members), timeout_(timeout) {}

  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;

 private:
  Members members_;
  milliseconds timeout_;
};

class QuorumStore final : public Store {
 public:
  QuorumStore(asio::io_context& context, const Plan& plan, milliseconds timeout);
  ~QuorumStore() override;

  std::string url() const override { return plan_.url(); }
  bool leases_run_out() const override { return true; }
  // Throws Failure: unsupported for slots, misconfigured for a lease that is longer than
  // the servers wait for before they vote.
  std::unique_ptr<Claimant> claimant(const Claim& claim) override;
  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const std::vector<Fence>& fences,
                                                    Wakeup& wakeup) override;
  LockInspector& inspector() override { return inspector_; }
  FenceRegisters* registers() override { return &registers_; }

 private:
  asio::io_context& context_;
  Plan plan_;
  milliseconds timeout_;
  Members members_;
  QuorumInspector inspector_;
  QuorumRegisters registers_;
};

}  // namespace dlock::redis_quorum
