// Locks on a quorum of independent servers.
//
// Each server runs the scripts of the single-server store and has one vote. tally.hpp and
// candidacy.hpp decide on the votes; the code here sends requests to all servers at once.
#pragma once

#include <memory>
#include <string>

#include "lock/store.hpp"
#include "store/redis_quorum/member.hpp"
#include "store/redis_quorum/plan.hpp"
#include "store/redis_quorum/quorum_inspector.hpp"

namespace dlock::redis_quorum {

// A fence is admitted if a majority admits it, and a majority cannot have admitted a
// greater one.
class QuorumRegisters final : public FenceRegisters {
 public:
  QuorumRegisters(const Members& members, milliseconds timeout,
                  std::shared_ptr<Complaints> complaints)
      : members_(members), timeout_(timeout), complaints_(std::move(complaints)) {}

  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;

 private:
  Members members_;
  milliseconds timeout_;
  std::shared_ptr<Complaints> complaints_;
};

class QuorumStore final : public Store {
 public:
  QuorumStore(asio::io_context& context, const Plan& plan, milliseconds timeout);
  ~QuorumStore() override;

  std::string url() const override { return plan_.url(); }
  bool leases_expire() const override { return true; }
  // Throws Failure: unsupported for slots, misconfigured for a lease longer than
  // --max-ttl, the time for which a restarted server does not vote.
  std::unique_ptr<Claimant> claimant(const Claim& claim) override;
  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const Break& order,
                                                    Wakeup& wakeup) override;
  void report_complaints(std::function<void(const std::string&)> warn) override {
    complaints_->report_to(std::move(warn));
  }
  LockInspector& inspector() override { return inspector_; }
  FenceRegisters* registers() override { return &registers_; }

 private:
  asio::io_context& context_;
  Plan plan_;
  milliseconds timeout_;
  Members members_;
  std::shared_ptr<Complaints> complaints_ = std::make_shared<Complaints>();
  QuorumInspector inspector_;
  QuorumRegisters registers_;
};

}  // namespace dlock::redis_quorum
