#include "store/none/none_store.hpp"

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

  asio::awaitable<void> await_turn(Wakeup&, Clock::time_point) override { co_return; }

  asio::awaitable<Release> release(const std::optional<RunEnd>&, Wakeup&) override {
    grant_ = {};
    co_return Release::released;
  }

  asio::awaitable<Renewal> renew(Wakeup&) override { co_return Renewal::confirmed; }

 private:
  Grant grant_;
};

}  // namespace

std::unique_ptr<Claimant> NoneStore::claimant(const Claim& claim) {
  return std::make_unique<NoneClaimant>(claim);
}

asio::awaitable<ValueLookup> NoneStore::get(const LockName&, std::size_t, Wakeup&) {
  co_return ValueLookup{};
}

asio::awaitable<ValueLook> NoneStore::describe(const LockName&, Wakeup&) {
  co_return ValueLook{};
}

asio::awaitable<Storing> NoneStore::put(const Claim&, const std::string&, Lifetime,
                                        Wakeup&) {
  co_return Storing::stored;
}

asio::awaitable<void> NoneStore::forget(const LockName&, Wakeup&) { co_return; }

asio::awaitable<std::vector<Broken>> NoneStore::break_leases(const LockName&,
                                                             const Break&, Wakeup&) {
  co_return std::vector<Broken>{};
}

asio::awaitable<LockInfo> NoneStore::inspect(const LockName& lock, Wakeup&) {
  LockInfo info;
  info.lock = lock;
  info.known = true;  // it remembers no run, so it cannot say that there was none
  info.now = wall_now();
  co_return info;
}

asio::awaitable<std::vector<LockInfo>> NoneStore::list(
    const std::string&, std::function<bool(const std::string&)>, Wakeup&) {
  co_return std::vector<LockInfo>{};
}

asio::awaitable<std::vector<RunInfo>> NoneStore::history(const LockName&, Wakeup&) {
  co_return std::vector<RunInfo>{};
}

asio::awaitable<Admission> NoneStore::admit_fence(const LockName&, Fence, Wakeup&) {
  co_return Admission::admitted;
}

asio::awaitable<RateAnswer> NoneStore::admit(const RateClaim& claim, Wakeup&) {
  co_return Admitted{claim.rate.most, milliseconds(0)};
}

asio::awaitable<void> NoneStore::withdraw(const RateClaim&, Wakeup&) { co_return; }

asio::awaitable<LimitInfo> NoneStore::look(const LockName&, Wakeup&) {
  co_return LimitInfo{};
}

asio::awaitable<void> NoneStore::reset(const LockName&, Wakeup&) { co_return; }

std::unique_ptr<Store> open(const StoreUrl&, milliseconds, asio::io_context&) {
  return std::make_unique<NoneStore>();
}

asio::awaitable<Examination> examine(const StoreUrl&, const std::string&, milliseconds,
                                     asio::io_context&, Wakeup&) {
  Examination examination;
  examination.findings.push_back(
      {"store", Finding::Level::info,
       "none: excludes no other run, so there is nothing to check", ""});
  co_return examination;
}

}  // namespace dlock::none
