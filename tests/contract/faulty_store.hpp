// A store some of whose calls fail, around one that works.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lock/store.hpp"

namespace dlock {

// What happens to one call.
struct Fault {
  enum class When { before, after };  // nothing was done, or only the reply was lost
  Failure failure;
  When when = When::before;
};

class FaultyStore final : public Store {
 public:
  // `faults` by the number of the call, from 1.
  FaultyStore(Store& store, std::map<int, Fault> faults)
      : store_(store), faults_(std::move(faults)) {}

  // How many calls to the service there were.
  int calls() const { return calls_; }

  std::string url() const override { return store_.url(); }
  bool protects() const override { return store_.protects(); }
  int session() const override { return store_.session(); }
  std::optional<StartNote> start_note(const Claim& claim) override {
    return store_.start_note(claim);
  }

  asio::awaitable<Answer> ask(const Claim& claim, Queue queue, Wakeup& wakeup) override {
    const auto fault = next();
    throw_if(fault, Fault::When::before);
    auto answer = co_await store_.ask(claim, queue, wakeup);
    throw_if(fault, Fault::When::after);
    co_return answer;
  }

  asio::awaitable<void> await_turn(const Claim& claim, Wakeup& wakeup,
                                   Clock::time_point until) override {
    return store_.await_turn(claim, wakeup, until);
  }

  asio::awaitable<Release> release(const Claim& claim, const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override {
    const auto fault = next();
    throw_if(fault, Fault::When::before);
    const auto outcome = co_await store_.release(claim, end, wakeup);
    throw_if(fault, Fault::When::after);
    co_return outcome;
  }

  asio::awaitable<void> started(const Claim& claim, const CommandProcess& process,
                                Wakeup& wakeup) override {
    const auto fault = next();
    throw_if(fault, Fault::When::before);
    co_await store_.started(claim, process, wakeup);
    throw_if(fault, Fault::When::after);
  }

  asio::awaitable<ValueLookup> get_value(const LockName& lock, Wakeup& wakeup) override {
    const auto fault = next();
    throw_if(fault, Fault::When::before);
    auto found = co_await store_.get_value(lock, wakeup);
    throw_if(fault, Fault::When::after);
    co_return found;
  }

  asio::awaitable<Storing> put_value(const Claim& claim, const std::string& bytes,
                                     Lifetime lifetime, Wakeup& wakeup) override {
    const auto fault = next();
    throw_if(fault, Fault::When::before);
    const auto storing = co_await store_.put_value(claim, bytes, lifetime, wakeup);
    throw_if(fault, Fault::When::after);
    co_return storing;
  }

  asio::awaitable<void> forget_value(const LockName& lock, Wakeup& wakeup) override {
    const auto fault = next();
    throw_if(fault, Fault::When::before);
    co_await store_.forget_value(lock, wakeup);
    throw_if(fault, Fault::When::after);
  }

  asio::awaitable<Renewal> renew(const Claim& claim, Wakeup& wakeup) override {
    const auto fault = next();
    throw_if(fault, Fault::When::before);
    const auto renewal = co_await store_.renew(claim, wakeup);
    throw_if(fault, Fault::When::after);
    co_return renewal;
  }

  void start_keeping(const Claim& claim, const Grant& grant, LeaseTiming timing,
                     LeaseWatcher& watcher) override {
    store_.start_keeping(claim, grant, timing, watcher);
  }
  void stop_keeping() override { store_.stop_keeping(); }

  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const std::vector<Fence>& fences,
                                                    Wakeup& wakeup) override {
    const auto fault = next();
    throw_if(fault, Fault::When::before);
    auto broken = co_await store_.break_leases(lock, fences, wakeup);
    throw_if(fault, Fault::When::after);
    co_return broken;
  }

  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) override {
    const auto fault = next();
    throw_if(fault, Fault::When::before);
    auto info = co_await store_.inspect(lock, wakeup);
    throw_if(fault, Fault::When::after);
    co_return info;
  }

  asio::awaitable<std::vector<LockInfo>> list(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup) override {
    const auto fault = next();
    throw_if(fault, Fault::When::before);
    auto locks = co_await store_.list(name_space, std::move(matches), wakeup);
    throw_if(fault, Fault::When::after);
    co_return locks;
  }

  asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                Wakeup& wakeup) override {
    const auto fault = next();
    throw_if(fault, Fault::When::before);
    auto runs = co_await store_.history(lock, wakeup);
    throw_if(fault, Fault::When::after);
    co_return runs;
  }

  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override {
    const auto fault = next();
    throw_if(fault, Fault::When::before);
    const auto admission = co_await store_.admit_fence(resource, fence, wakeup);
    throw_if(fault, Fault::When::after);
    co_return admission;
  }

  asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) override {
    const auto fault = next();
    throw_if(fault, Fault::When::before);
    auto admission = co_await store_.admit(claim, wakeup);
    throw_if(fault, Fault::When::after);
    co_return admission;
  }

  asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) override {
    const auto fault = next();
    throw_if(fault, Fault::When::before);
    co_await store_.withdraw(claim, wakeup);
    throw_if(fault, Fault::When::after);
  }

 private:
  std::optional<Fault> next() {
    const auto found = faults_.find(++calls_);
    return found == faults_.end() ? std::nullopt : std::optional(found->second);
  }

  static void throw_if(const std::optional<Fault>& fault, Fault::When when) {
    if (fault && fault->when == when) throw fault->failure;
  }

  Store& store_;
  std::map<int, Fault> faults_;
  int calls_ = 0;
};

}  // namespace dlock
