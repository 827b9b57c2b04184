// The embedded store: small files hold the state, kernel locks prove who is alive. Rate
// limits and fence registers need no more than its files.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lock/store.hpp"
#include "store/local/files.hpp"
#include "store/local/local_claimant.hpp"
#include "store/local/local_inspector.hpp"
#include "store/local/local_values.hpp"
#include "store/store_url.hpp"

namespace dlock::local {

class LocalRates final : public RateLimits {
 public:
  // `files` must outlive this.
  explicit LocalRates(Files& files) : files_(files) {}

  asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<LimitInfo> look(const LockName& limit, Wakeup& wakeup) override;
  asio::awaitable<void> reset(const LockName& limit, Wakeup& wakeup) override;

 private:
  RecordFile file_to_admit(const RateClaim& claim, const std::string& name) const;

  Files& files_;
  std::optional<std::pair<Token, RateAnswer>>
      admitted_;  // the last one, in case it is repeated
};

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
  LockInspector& inspector() override { return inspector_; }
  ValueStore* values() override { return made(values_); }
  RateLimits* rates() override { return made(rates_); }

 private:
  // Most runs need none of these.
  template <typename Facet>
  Facet* made(std::optional<Facet>& facet) {
    if (!facet) facet.emplace(files_);
    return &*facet;
  }

  Files files_;
  LocalInspector inspector_;
  std::optional<LocalValues> values_;
  std::optional<LocalRates> rates_;
};

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

}  // namespace dlock::local
