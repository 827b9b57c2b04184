#include "store/none/none_store.hpp"

namespace dlock::none {

asio::awaitable<Answer> NoneStore::ask(const Claim&, Queue, Wakeup&) {
  if (grant_.fence.number == 0) {
    grant_.fence.number = static_cast<std::uint64_t>(wall_now().count());
  }
  co_return grant_;
}

asio::awaitable<void> NoneStore::await_turn(const Claim&, Wakeup&, Clock::time_point) {
  co_return;
}

asio::awaitable<Release> NoneStore::release(const Claim&, const std::optional<RunEnd>&,
                                            Wakeup&) {
  grant_ = {};
  co_return Release::released;
}

asio::awaitable<ValueLookup> NoneStore::get_value(const LockName&, Wakeup&) {
  co_return ValueLookup{};
}

asio::awaitable<Storing> NoneStore::put_value(const Claim&, const std::string&, Lifetime,
                                              Wakeup&) {
  co_return Storing::stored;
}

asio::awaitable<void> NoneStore::forget_value(const LockName&, Wakeup&) { co_return; }

asio::awaitable<Renewal> NoneStore::renew(const Claim&, Wakeup&) {
  co_return Renewal::confirmed;
}

asio::awaitable<void> NoneStore::started(const Claim&, const CommandProcess&, Wakeup&) {
  co_return;
}

asio::awaitable<std::vector<Broken>> NoneStore::break_leases(const LockName&,
                                                             const std::vector<Fence>&,
                                                             Wakeup&) {
  co_return std::vector<Broken>{};
}

asio::awaitable<LockInfo> NoneStore::inspect(const LockName& lock, Wakeup&) {
  LockInfo info;
  info.lock = lock;
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

}  // namespace dlock::none
