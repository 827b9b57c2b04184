#include "lock/store.hpp"
#include "store/store_url.hpp"

namespace dlock::none {

namespace {

class NoneClaimant final : public Claimant {
 public:
  using Claimant::Claimant;

  asio::awaitable<Answer> ask(Queue, Wakeup&) override {
    if (grant_.fence.number == 0) {
      grant_.fence.number = static_cast<std::uint64_t>(wall_now().count());
    }
    co_return grant_;
  }
  asio::awaitable<void> await_turn(Call) override { co_return; }
  asio::awaitable<Release> release(const std::optional<RunEnd>&, Wakeup&) override {
    grant_ = {};
    co_return Release::released;
  }
  asio::awaitable<Renewal> renew(Wakeup&) override { co_return Renewal::confirmed; }

 private:
  Grant grant_;
};

class NoneStore final : public Store,
                        private LockInspector,
                        private ValueStore,
                        private RateLimits {
 public:
  std::string url() const override { return "none:"; }
  bool protects() const override { return false; }
  bool leases_expire() const override { return false; }
  std::unique_ptr<Claimant> claimant(const Claim& claim) override {
    return std::make_unique<NoneClaimant>(claim);
  }
  asio::awaitable<std::vector<Broken>> break_leases(const LockName&, const Break&,
                                                    Wakeup&) override {
    co_return std::vector<Broken>{};
  }
  asio::awaitable<Admission> admit_fence(const LockName&, Fence, Wakeup&) override {
    co_return Admission::admitted;
  }
  LockInspector& inspector() override { return *this; }
  ValueStore* values() override { return this; }
  RateLimits* rates() override { return this; }

 private:
  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup&) override {
    LockInfo info;
    info.lock = lock;
    info.known = true;  // it remembers no run, so it cannot say that there was none
    info.now = wall_now();
    co_return info;
  }
  asio::awaitable<std::vector<LockInfo>> list(const std::string&, NameFilter,
                                              Wakeup&) override {
    co_return std::vector<LockInfo>{};
  }
  asio::awaitable<std::vector<RunInfo>> history(const LockName&, Wakeup&) override {
    co_return std::vector<RunInfo>{};
  }

  asio::awaitable<ValueLookup> get(const LockName&, std::size_t, Wakeup&) override {
    co_return ValueLookup{};
  }
  asio::awaitable<ValueLook> describe(const LockName&, Wakeup&) override {
    co_return ValueLook{};
  }
  asio::awaitable<Storing> put(const Claim&, const std::string&, Lifetime,
                               Wakeup&) override {
    co_return Storing::stored;
  }
  asio::awaitable<void> forget(const LockName&, Wakeup&) override { co_return; }

  asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup&) override {
    co_return Admitted{claim.rate.most, milliseconds(0)};
  }
  asio::awaitable<void> withdraw(const RateClaim&, Wakeup&) override { co_return; }
  asio::awaitable<LimitInfo> look(const LockName&, Wakeup&) override {
    co_return LimitInfo{};
  }
  asio::awaitable<void> reset(const LockName&, Wakeup&) override { co_return; }
};

}  // namespace

std::unique_ptr<Store> open(const StoreUrl&, milliseconds, asio::io_context&) {
  return std::make_unique<NoneStore>();
}

asio::awaitable<Examination> examine(const ExaminationOrder&) {
  Examination examination;
  examination.findings.push_back(
      {"store", Finding::Level::info,
       "none: excludes no other run, so there is nothing to check", ""});
  co_return examination;
}

}  // namespace dlock::none
