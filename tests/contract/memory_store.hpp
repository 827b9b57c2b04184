// A store in the memory of one process: the smallest one that keeps states of the rules.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rules/limit.hpp"
#include "store/stepped/stepped_store.hpp"

namespace dlock {

// What becomes of a request to write a state: it is carried out; another step was faster;
// it is refused, though none was; its answer is lost, whether it was carried out or not
// yet, and will be (deliver()).
enum class Fate { done, lost_race, conflict, answer_lost, late };

// What all clients share.
struct MemoryService {
  using StateStore = stepped::StateStore;

  struct Kept {
    rules::State state;
    std::string version;
  };

  struct LateWrite {
    LockName lock;
    std::string version;  // that it has read
    StateStore::Change change;
  };

  struct Stored {
    std::string bytes;
    Clock::time_point stored_at;
    Clock::time_point fresh_until;
    Clock::time_point there_until;
  };

  // Returns false if the lock no longer has the version.
  bool write(const LockName& lock, const std::string& version,
             const StateStore::Change& change);
  void wake(rules::Session session);
  void tell(rules::Session session) const;  // if it listens
  void deliver();                           // the requests that are late

  std::string next_version() { return std::to_string(++last_version); }

  std::map<LockName, Kept> locks;
  std::map<rules::Session, Wakeup*> sleepers;
  std::set<rules::Session> woken;     // of them, since they began to sleep
  std::set<rules::Session> in_front;  // those that were told so
  std::map<rules::Session, std::function<void()>> listeners;
  std::map<LockName, rules::LimitState> limits;
  std::map<LockName, Fence> registers;
  std::map<LockName, Stored> values;
  std::vector<LateWrite> late;
  // Of the next write, which may only count a refused claim.
  std::function<Fate(bool only_counts)> fate = [](bool) { return Fate::done; };
  bool is_held_up = false;  // gives no answers
  bool is_taken = false;    // by a step with exclusive access
  std::uint64_t last_version = 0;
  std::uint64_t epoch = 0;  // how often another server has taken over
};

// One client.
class MemoryStore final : public stepped::SteppedStore,
                          private ValueStore,
                          private RateLimits {
 public:
  MemoryStore(asio::io_context& context, MemoryService& service, milliseconds timeout);

  ValueStore* values() override { return this; }
  RateLimits* rates() override { return this; }
  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;

 private:
  asio::awaitable<void> reach(Wakeup& wakeup) const;
  asio::awaitable<ValueLookup> get(const LockName& lock, std::size_t most,
                                   Wakeup& wakeup) override;
  asio::awaitable<ValueLook> describe(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<Storing> put(const Claim& claim, const std::string& bytes,
                               Lifetime lifetime, Wakeup& wakeup) override;
  asio::awaitable<void> forget(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<LimitInfo> look(const LockName& limit, Wakeup& wakeup) override;
  asio::awaitable<void> reset(const LockName& limit, Wakeup& wakeup) override;

  MemoryService& service_;
  milliseconds timeout_;
  std::optional<std::pair<Token, RateAnswer>> admitted_;  // the last one, for repetitions
};

}  // namespace dlock
