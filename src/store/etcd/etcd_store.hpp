// Locks in an etcd cluster, shared by many machines; they survive the loss of a minority
// of its members.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lock/store.hpp"
#include "store/etcd/etcd_calls.hpp"
#include "store/store_url.hpp"

namespace dlock::etcd {

class EtcdStore final : public Store {
 public:
  // `url` as users see it, without secrets.
  EtcdStore(std::string url, std::unique_ptr<EtcdCalls> calls);

  std::string url() const override { return url_; }
  bool leases_expire() const override { return true; }
  std::unique_ptr<Claimant> claimant(const Claim& claim) override;
  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const Break& order,
                                                    Wakeup& wakeup) override;
  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;
  LockInspector& inspector() override { return *inspector_; }

 private:
  std::string url_;
  std::unique_ptr<EtcdCalls> calls_;
  std::unique_ptr<LockInspector> inspector_;
};

// `access`: the addresses of the members and the login.
std::unique_ptr<Store> store_of(std::string url, const EtcdAccess& access,
                                milliseconds timeout, asio::io_context& context);

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

}  // namespace dlock::etcd
