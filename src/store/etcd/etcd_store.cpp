#include "store/etcd/etcd_store.hpp"

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "store/etcd/etcd_claimant.hpp"
#include "store/etcd/etcd_entry.hpp"
#include "store/etcd/etcd_errors.hpp"
#include "store/etcd/etcd_inspector.hpp"
#include "store/etcd/etcd_lease.hpp"
#include "store/etcd/etcd_steps.hpp"
#include "store/fan_out.hpp"
#include "util/text.hpp"

namespace dlock::etcd {
namespace {

// Fixed length, so that etcd's comparison of bytes compares the numbers.
constexpr std::size_t fence_width = 20;
std::string digits_of(Fence fence) {
  const auto digits = std::to_string(fence.number);
  return std::string(fence_width - digits.size(), '0') + digits;
}

TxnRequest admission_of(const LockName& resource, Fence fence) {
  const auto key = register_key(resource);
  Compare is_greater;
  is_greater.key = key;
  is_greater.target = Compare::Target::value;
  is_greater.result = Compare::Result::greater;
  is_greater.value = digits_of(fence);
  PutRequest put;
  put.key = key;
  put.value = digits_of(fence);
  RangeRequest get;
  get.key = key;
  TxnRequest txn;
  txn.conditions.push_back(std::move(is_greater));
  txn.then.emplace_back(std::move(get));
  txn.otherwise.emplace_back(std::move(put));
  return txn;
}

class EtcdStore final : public Store {
 public:
  // `url` as users see it, without secrets.
  EtcdStore(std::string url, std::unique_ptr<EtcdCalls> calls)
      : url_(std::move(url)),
        calls_(std::move(calls)),
        inspector_(inspector_of(*calls_)) {}

  std::string url() const override { return url_; }
  bool leases_expire() const override { return true; }
  std::unique_ptr<Claimant> claimant(const Claim& claim) override {
    // Both would have to be known to all clients that decide by the queue.
    const auto refused = [](const std::string& option) {
      return Failure::unsupported(
          "etcd does not support " + option +
          ": its queue is shared with etcdctl lock, and is in the order in "
          "which its entries were created");
    };
    if (claim.priority != 0) throw refused("--priority");
    if (claim.spreads) throw refused("--spread");
    return claimant_of(*calls_, claim);
  }

  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const Break& order,
                                                    Wakeup& wakeup) override {
    const auto call = calls_->new_call(wakeup);
    DayLease day_lease(*calls_, lock.name_space);
    auto request = look_at(lock);
    auto result = co_await calls_->txn(std::move(request), call);
    auto snapshot = snapshot_from(lock, result);
    auto self = own_taker(false);
    self.forced = order.by_force;
    auto decision = decide_on_break(snapshot, order, wall_now());
    const auto meant = std::move(decision.meant);
    for (; !decision.lose.empty();
         decision = decide_on_break(snapshot, order, wall_now())) {
      const StepContext step_context{lock, wall_now(), day_lease.id()};
      request = take_away(step_context, decision.lose, self);
      result = co_await calls_->txn(std::move(request), call);
      if (result.lease_gone) {
        co_await day_lease.set_up(call);
        request = look_at(lock);
        result = co_await calls_->txn(std::move(request), call);
      }
      snapshot = snapshot_from(lock, result, result.results.size() - 2);
    }
    std::vector<Broken> broken;
    broken.reserve(meant.size());
    for (const auto& holder : meant) broken.push_back({holder, {}});
    co_return broken;
  }

  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override {
    auto request = admission_of(resource, fence);
    const auto call = calls_->new_call(wakeup);
    const auto result = co_await calls_->txn(std::move(request), call);
    if (!result.succeeded) co_return Admission::admitted;
    for (const auto& found : range_at(result, 0).pairs) {
      std::string_view digits = found.value;
      if (digits.size() == fence_width && take_number<std::uint64_t>(digits) &&
          digits.empty()) {
        co_return Admission::stale;
      }
    }
    throw Failure::misconfigured("the key " + printable(register_key(resource)) +
                                 " holds no fence");
  }

  LockInspector& inspector() override { return *inspector_; }

 private:
  std::string url_;
  std::unique_ptr<EtcdCalls> calls_;
  std::unique_ptr<LockInspector> inspector_;
};

}  // namespace

std::unique_ptr<Store> store_of(std::string url, const EtcdAccess& access,
                                milliseconds timeout, asio::io_context& context) {
  return std::make_unique<EtcdStore>(
      std::move(url), std::make_unique<EtcdCalls>(context, access, timeout));
}

std::unique_ptr<Store> open(const StoreUrl& url, milliseconds timeout,
                            asio::io_context& context) {
  return store_of(url.text(), access_of(url), timeout, context);
}

}  // namespace dlock::etcd
