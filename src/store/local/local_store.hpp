// The embedded store: small files hold the state, kernel locks prove who is alive.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "lock/finding.hpp"
#include "lock/store.hpp"
#include "store/local/files.hpp"
#include "store/local/local_inspector.hpp"
#include "store/local/local_rates.hpp"
#include "store/local/local_values.hpp"
#include "store/store_url.hpp"

namespace dlock::local {

class LocalStore final : public Store {
 public:
  // As Files. Throws Failure (misconfigured) if there is no default directory.
  LocalStore(asio::io_context& context, std::string path, milliseconds timeout);

  std::string url() const override;
  bool leases_expire() const override { return false; }
  std::unique_ptr<Claimant> claimant(const Claim& claim) override;
  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const Break& order,
                                                    Wakeup& wakeup) override;
  LockInspector& inspector() override { return inspector_; }
  ValueStore* values() override { return &values_; }
  RateLimits* rates() override { return &rates_; }
  FenceRegisters* registers() override { return &registers_; }

 private:
  Files files_;
  LocalInspector inspector_;
  LocalValues values_;
  LocalRates rates_;
  LocalRegisters registers_;
};

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

}  // namespace dlock::local
