// A contender for a lock: a claim, and a client of the store that makes it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lease/keeper.hpp"
#include "tests/contract/await.hpp"
#include "tests/contract/worlds.hpp"
#include "util/bits.hpp"

namespace dlock {

inline Claim claim_of(const std::string& name) {
  Claim claim;
  claim.lock = {"dlock", name};
  claim.token.bytes = random_bytes();
  claim.command = {"./job"};
  return claim;
}

inline LeaseTiming timing_of(const Claim& claim) {
  return {claim.ttl, milliseconds(5000), claim.ttl / 10};
}

// Represents a process: its leases and its places in queues end some time after it does.
class Contender {
 public:
  Contender(asio::io_context& at, World& world, Claim wanted,
            milliseconds timeout = usual_timeout)
      : claim(std::move(wanted)),
        wakeup(at),
        store(world.connect(at, timeout)),
        context_(at) {}

  // The claimant, with the claim as it was at the first call.
  Claimant& claimant() {
    if (!claimant_) claimant_ = store->claimant(claim);
    return *claimant_;
  }

  // A claimant of another client, with the claim as it is now.
  void start_anew() { claimant_ = store->claimant(claim); }

  Answer ask(Queue queue = Queue::stay_out) {
    return result_of(context_, claimant().ask(queue, wakeup));
  }
  Release release(const std::optional<RunEnd>& end = std::nullopt) {
    const auto another = claimant_of_another_client();
    auto& releasing = another ? *another : claimant();
    return result_of(context_, releasing.release(end, wakeup));
  }
  Renewal renew() {
    const auto another = claimant_of_another_client();
    auto& renewing = another ? *another : claimant();
    return result_of(context_, renewing.renew(wakeup));
  }
  Admission admit(std::uint64_t fence) {
    return result_of(context_, store->admit_fence(claim.lock, Fence{fence}, wakeup));
  }
  ValueLookup look_up(std::size_t most = std::size_t{1} << 30) {
    return result_of(context_, values_of(*store).get(claim.lock, most, wakeup));
  }
  std::optional<std::string> value() {
    const auto found = look_up().value;
    return found ? std::optional(found->bytes) : std::nullopt;
  }
  Storing put(const std::string& bytes, Lifetime lifetime = {milliseconds(60'000), {}}) {
    return result_of(context_, values_of(*store).put(claim, bytes, lifetime, wakeup));
  }
  void forget() { result_of(context_, values_of(*store).forget(claim.lock, wakeup)); }
  LockInfo inspect() {
    return result_of(context_, store->inspector().inspect(claim.lock, wakeup));
  }
  std::vector<RunInfo> history() {
    return result_of(context_, store->inspector().history(claim.lock, wakeup));
  }
  void start(const CommandProcess& process) {
    result_of(context_, claimant().started(process, wakeup));
  }

  void keep(const Grant& grant, LeaseWatcher& watcher) {
    keeper_.emplace(context_, claimant(), store->leases_expire(), timing_of(claim),
                    watcher);
    keeper_->start(grant.sent_at);
  }
  void stop_keeping() {
    keeper_->stop();
    result_of(context_, keeper_->ended(wakeup));
  }

  // These require the result that the rest of a test depends on. Any other result throws,
  // which fails the test.
  Grant granted() { return std::get<Grant>(ask()); }
  Busy queued() { return std::get<Busy>(ask(Queue::join)); }

  bool is_granted() { return std::holds_alternative<Grant>(ask()); }
  bool is_busy() { return std::holds_alternative<Busy>(ask()); }

  Claim claim;
  Wakeup wakeup;
  std::unique_ptr<Store> store;

 private:
  // Renews and releases a detached lease by its token; null for an attached one.
  std::unique_ptr<Claimant> claimant_of_another_client() {
    return claim.attached ? nullptr : store->claimant(claim);
  }

  asio::io_context& context_;
  std::unique_ptr<Claimant> claimant_;
  std::optional<LeaseKeeper> keeper_;
};

}  // namespace dlock
