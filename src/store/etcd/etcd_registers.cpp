#include "store/etcd/etcd_registers.hpp"

#include <utility>

#include "store/etcd/keys.hpp"

namespace dlock::etcd {
namespace {

// Fixed length, so that etcd's comparison of bytes compares the numbers.
std::string digits_of(Fence fence) {
  constexpr std::size_t width = 20;
  const auto digits = std::to_string(fence.number);
  return std::string(width - digits.size(), '0') + digits;
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
  TxnRequest txn;
  txn.conditions.push_back(std::move(is_greater));
  txn.otherwise.emplace_back(std::move(put));
  return txn;
}

}  // namespace

asio::awaitable<Admission> EtcdRegisters::admit_fence(const LockName& resource,
                                                      Fence fence, Wakeup& wakeup) {
  auto request = admission_of(resource, fence);
  const auto until = calls_.budget_end();
  const auto result =
      co_await calls_.txn(std::move(request), Repeat::freely, until, wakeup);
  co_return result.succeeded ? Admission::stale : Admission::admitted;
}

}  // namespace dlock::etcd
