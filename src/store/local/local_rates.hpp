// Rate limits and fence registers of a local store.
#pragma once

#include <optional>
#include <utility>

#include "lock/fence_registers.hpp"
#include "lock/rates.hpp"
#include "store/local/files.hpp"

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
  LimitState limit_in(const RecordFile& file, const LockName& limit) const;
  RecordFile file_to_admit(const RateClaim& claim, const std::string& name) const;

  Files& files_;
  std::optional<std::pair<Token, RateAnswer>>
      admitted_;  // the last one, in case it is repeated
};

class LocalRegisters final : public FenceRegisters {
 public:
  explicit LocalRegisters(Files& files) : files_(files) {}

  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;

 private:
  Files& files_;
};

}  // namespace dlock::local
