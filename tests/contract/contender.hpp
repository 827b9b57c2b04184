// One who wants a lock: a claim, and a client of the store to put it to.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tests/contract/await.hpp"
#include "tests/contract/worlds.hpp"
#include "util/random.hpp"

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

// Stands for a process: what it holds or waits for ends with it, sooner or later.
class Contender {
 public:
  Contender(asio::io_context& at, World& world, Claim wanted,
            milliseconds timeout = milliseconds(2000))
      : claim(std::move(wanted)),
        wakeup(at),
        store(world.connect(at, timeout)),
        context_(at) {}

  Answer ask(Queue queue = Queue::stay_out) {
    return result_of(context_, store->ask(claim, queue, wakeup));
  }
  Release release(const std::optional<RunEnd>& end = std::nullopt) {
    return result_of(context_, store->release(claim, end, wakeup));
  }
  Renewal renew() { return result_of(context_, store->renew(claim, wakeup)); }
  Admission admit(std::uint64_t fence) {
    return result_of(context_, store->admit_fence(claim.lock, Fence{fence}, wakeup));
  }
  ValueLookup look_up() {
    return result_of(context_, store->get_value(claim.lock, wakeup));
  }
  std::optional<std::string> value() {
    const auto found = look_up().value;
    return found ? std::optional(found->bytes) : std::nullopt;
  }
  Storing put(const std::string& bytes, Lifetime lifetime = {milliseconds(60'000), {}}) {
    return result_of(context_, store->put_value(claim, bytes, lifetime, wakeup));
  }
  void forget() { result_of(context_, store->forget_value(claim.lock, wakeup)); }
  LockInfo inspect() { return result_of(context_, store->inspect(claim.lock, wakeup)); }
  std::vector<RunInfo> history() {
    return result_of(context_, store->history(claim.lock, wakeup));
  }
  void start(const CommandProcess& process) {
    result_of(context_, store->started(claim, process, wakeup));
  }

  // What has to come of it for the rest of a test to mean something; anything else
  // fails the test by an exception.
  Grant granted() { return std::get<Grant>(ask()); }
  Busy queued() { return std::get<Busy>(ask(Queue::join)); }

  bool is_granted() { return std::holds_alternative<Grant>(ask()); }
  bool is_busy() { return std::holds_alternative<Busy>(ask()); }

  Claim claim;
  Wakeup wakeup;
  std::unique_ptr<Store> store;

 private:
  asio::io_context& context_;
};

}  // namespace dlock
