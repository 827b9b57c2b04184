// A store that is built on the rules: each call reads the state of a lock, applies a
// rule, and writes it. Leases and places end by the clock of the store.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "lock/store.hpp"
#include "store/stepped/state_store.hpp"

namespace dlock::stepped {

class SteppedStore : public Store, private LockInspector {
 public:
  SteppedStore(asio::io_context& context, std::string url,
               std::unique_ptr<StateStore> states)
      : context_(context), url_(std::move(url)), states_(std::move(states)) {}

  std::string url() const override { return url_; }
  bool leases_expire() const override { return true; }
  std::unique_ptr<Claimant> claimant(const Claim& claim) override;
  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const Break& order,
                                                    Wakeup& wakeup) override;
  LockInspector& inspector() override { return *this; }

 private:
  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockInfo>> list(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup) override;
  asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockHistory>> histories(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup) override;
  std::vector<Failure> left_out() const override { return states_->left_out(); }
  asio::awaitable<void> watch(const Watched& watched, EventSink& sink,
                              Wakeup& wakeup) override;
  Call new_call(Wakeup& wakeup) const { return wakeup.within(states_->timeout()); }

  asio::io_context& context_;
  std::string url_;
  std::unique_ptr<StateStore> states_;
};

}  // namespace dlock::stepped
