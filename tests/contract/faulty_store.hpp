// A claimant that wraps a working one and makes some of its calls fail.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "lock/store.hpp"

namespace dlock {

// The fault of one call.
struct Fault {
  enum class When { before, after };  // the call is not made, or only its reply is lost
  Failure failure;
  When when = When::before;
};

// Faults by the number of the call, from 1.
class Faults {
 public:
  explicit Faults(std::map<int, Fault> faults) : faults_(std::move(faults)) {}

  // The number of calls so far.
  int calls() const { return calls_; }

  // Makes one call, with its fault.
  template <typename T>
  asio::awaitable<T> around(asio::awaitable<T> call) {
    const auto found = faults_.find(++calls_);
    const bool fails = found != faults_.end();
    if (fails && found->second.when == Fault::When::before) throw found->second.failure;
    auto answer = co_await std::move(call);
    if (fails) throw found->second.failure;
    co_return answer;
  }

 private:
  std::map<int, Fault> faults_;
  int calls_ = 0;
};

class FaultyClaimant final : public Claimant {
 public:
  FaultyClaimant(Claimant& claimant, std::map<int, Fault> faults)
      : Claimant(claimant.claim()), claimant_(claimant), faults_(std::move(faults)) {}

  int calls() const { return faults_.calls(); }

  bool queues_at_once() const override { return claimant_.queues_at_once(); }
  asio::awaitable<Answer> ask(Queue queue, Wakeup& wakeup) override {
    return faults_.around(claimant_.ask(queue, wakeup));
  }
  asio::awaitable<void> await_turn(Call call) override {
    return claimant_.await_turn(call);
  }
  asio::awaitable<Release> release(const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override {
    return faults_.around(claimant_.release(end, wakeup));
  }
  asio::awaitable<Renewal> renew(Wakeup& wakeup) override {
    return faults_.around(claimant_.renew(wakeup));
  }

 private:
  Claimant& claimant_;
  Faults faults_;
};

class FaultyRates final : public RateLimits {
 public:
  FaultyRates(RateLimits& limits, std::map<int, Fault> faults)
      : limits_(limits), faults_(std::move(faults)) {}

  asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) override {
    return faults_.around(limits_.admit(claim, wakeup));
  }
  asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) override {
    return limits_.withdraw(claim, wakeup);
  }
  asio::awaitable<LimitInfo> look(const LockName& limit, Wakeup& wakeup) override {
    return limits_.look(limit, wakeup);
  }
  asio::awaitable<void> reset(const LockName& limit, Wakeup& wakeup) override {
    return limits_.reset(limit, wakeup);
  }

 private:
  RateLimits& limits_;
  Faults faults_;
};

}  // namespace dlock
