// The embedded store: small files hold the state, kernel locks prove who is alive. Rate
// limits and fence registers need no more than its files.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "lock/store.hpp"
#include "store/local/files.hpp"
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
  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;
  LockInspector& inspector() override;
  ValueStore* values() override;
  RateLimits* rates() override;

 private:
  Files files_;
  // Most runs need none of these.
  std::unique_ptr<LockInspector> inspector_;
  std::unique_ptr<ValueStore> values_;
  std::unique_ptr<RateLimits> rates_;
};

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

}  // namespace dlock::local
