#include "tests/contract/memory_store.hpp"

#include <algorithm>
#include <set>

#include "rules/state.hpp"
#include "store/stepped/state_store.hpp"
#include "store/stepped/stepped_claimant.hpp"

namespace dlock {
namespace {

using stepped::StateStore;

Failure not_answered() {
  return Failure(Failure::Kind::unreachable, "the store does not answer");
}

// Waits while the service gives no answers.
asio::awaitable<void> reach(const MemoryService& service, Call call) {
  while (service.is_held_up) {
    if (call.wakeup.gives_up()) throw Failure(Failure::Kind::interrupted, "interrupted");
    if (call.is_over()) throw not_answered();
    co_await call.wait();
  }
}

class MemoryNews final : public LeaseNews {
 public:
  MemoryNews(MemoryService& service, rules::Session party)
      : service_(service), party_(party) {}
  ~MemoryNews() override { service_.listeners.erase(party_); }

 private:
  MemoryService& service_;
  rules::Session party_;
};

// The part that every store on stepped::StateStore has. Each call is one step of the
// event loop, so no other call changes a state between the exclusive reading of it and
// its change.
class MemoryStates final : public StateStore {
 public:
  MemoryStates(asio::io_context& context, MemoryService& service, milliseconds timeout)
      : context_(context), service_(service), timeout_(timeout) {}
  ~MemoryStates() override {
    for (const auto party : parties_) {
      service_.sleepers.erase(party);
      service_.woken.erase(party);
      service_.in_front.erase(party);
    }
  }

  milliseconds timeout() const override { return timeout_; }

  asio::awaitable<Snapshot> read(const LockName& lock, Access access,
                                 Call call) override {
    const auto sent_at = Clock::now();
    co_await reach(service_, call);
    is_exclusive_ = access == Access::exclusive;
    service_.is_taken = is_exclusive_;
    const auto found = service_.locks.find(lock);
    const auto now = rules::Moment::now();
    if (found == service_.locks.end())
      co_return Snapshot{{}, now, sent_at, {}, false, service_.epoch};
    co_return Snapshot{found->second.state,   now,   sent_at,
                       found->second.version, false, service_.epoch};
  }

  asio::awaitable<bool> write(const LockName& lock, const Snapshot& read,
                              const Change& change, Call call) override {
    co_await reach(service_, call);
    service_.is_taken = false;
    const auto fate =
        service_.fate(stepped::differs_only_in_count(read.state, change.state));
    if (fate == Fate::conflict) co_return false;
    if (fate == Fate::lost_race && !is_exclusive_) {
      if (!read.version.empty()) service_.locks[lock].version = service_.next_version();
      co_return false;
    }
    if (fate == Fate::late) {
      service_.late.push_back({lock, read.version, change});
      throw not_answered();
    }
    const bool is_done = service_.write(lock, read.version, change);
    if (fate == Fate::answer_lost) throw not_answered();
    co_return is_done;
  }

  asio::awaitable<void> leave(Wakeup&) override {
    service_.is_taken = false;
    co_return;
  }

  asio::awaitable<void> count_refused(LockName lock, Wakeup&) override {
    const auto found = service_.locks.find(lock);
    const bool is_done = service_.fate(true) == Fate::done;
    if (is_done && found != service_.locks.end()) ++found->second.state.refused;
    co_return;
  }

  asio::awaitable<void> read_all(const std::string& name_space, bool /*with_runs*/,
                                 const Taken& take, Call call) override {
    const auto sent_at = Clock::now();
    co_await reach(service_, call);
    for (const auto& [lock, kept] : service_.locks) {
      if (lock.name_space != name_space) continue;
      take(lock, {kept.state, rules::Moment::now(), sent_at, kept.version});
    }
  }

  asio::awaitable<bool> sleep(rules::Session party, std::size_t /*place*/,
                              Call call) override {
    parties_.insert(party);
    const bool listens = !service_.sleepers.insert_or_assign(party, &call.wakeup).second;
    if (listens) co_await call.wait();
    const bool is_in_front = service_.in_front.erase(party) > 0;
    co_return service_.woken.erase(party) == 0 && is_in_front;
  }

  std::unique_ptr<LeaseNews> listen(rules::Session party,
                                    std::function<void()> on_news) override {
    // What has changed before is news too.
    asio::post(context_, [&service = service_, party] { service.tell(party); });
    service_.listeners[party] = std::move(on_news);
    return std::make_unique<MemoryNews>(service_, party);
  }

 private:
  asio::io_context& context_;
  MemoryService& service_;
  milliseconds timeout_;
  bool is_exclusive_ = false;
  std::set<rules::Session> parties_;
};

}  // namespace

bool MemoryService::write(const LockName& lock, const std::string& version,
                          const StateStore::Change& change) {
  const auto found = locks.find(lock);
  if ((found == locks.end() ? "" : found->second.version) != version) return false;
  locks[lock] = {change.state, next_version()};
  for (const auto session : change.wake) wake(session);
  for (const auto session : change.in_front) {
    const auto sleeper = sleepers.find(session);
    if (sleeper == sleepers.end()) continue;
    in_front.insert(session);
    sleeper->second->notify();
  }
  return true;
}

void MemoryService::wake(rules::Session session) {
  const auto sleeper = sleepers.find(session);
  if (sleeper != sleepers.end()) {
    woken.insert(session);
    sleeper->second->notify();
  }
  tell(session);
}

void MemoryService::tell(rules::Session session) const {
  const auto listener = listeners.find(session);
  if (listener != listeners.end()) listener->second();
}

void MemoryService::deliver() {
  for (const auto& write_late : std::exchange(late, {})) {
    write(write_late.lock, write_late.version, write_late.change);
  }
}

MemoryStore::MemoryStore(asio::io_context& context, MemoryService& service,
                         milliseconds timeout)
    : SteppedStore(context,
                   "memory:", std::make_unique<MemoryStates>(context, service, timeout)),
      service_(service),
      timeout_(timeout) {}

asio::awaitable<void> MemoryStore::reach(Wakeup& wakeup) const {
  return dlock::reach(service_, wakeup.within(timeout_));
}

asio::awaitable<ValueLookup> MemoryStore::get(const LockName& lock, std::size_t most,
                                              Wakeup& wakeup) {
  co_await reach(wakeup);
  ValueLookup found;
  const auto stored = service_.values.find(lock);
  const auto now = Clock::now();
  if (stored != service_.values.end() && now < stored->second.there_until) {
    found.value = Value{stored->second.bytes, now < stored->second.fresh_until};
  }
  if (found.value && found.value->bytes.size() > most) {
    co_return too_large(found.value->bytes.size(), most);
  }
  co_return found;
}

asio::awaitable<ValueLook> MemoryStore::describe(const LockName& lock, Wakeup& wakeup) {
  co_await reach(wakeup);
  ValueLook found;
  const auto stored = service_.values.find(lock);
  const auto now = Clock::now();
  if (stored == service_.values.end() || now >= stored->second.there_until)
    co_return found;
  const auto until = [&](Clock::time_point moment) {
    return std::chrono::ceil<milliseconds>(std::max(moment, now) - now);
  };
  const auto& value = stored->second;
  const auto age = std::chrono::floor<milliseconds>(now - value.stored_at);
  found.value = ValueInfo{value.bytes.size(), age, until(value.fresh_until),
                          until(value.there_until)};
  co_return found;
}

asio::awaitable<Storing> MemoryStore::put(const Claim& claim, const std::string& bytes,
                                          Lifetime lifetime, Wakeup& wakeup) {
  co_await reach(wakeup);
  auto& state = service_.locks[claim.lock].state;
  const auto moment = rules::Moment::now();
  const auto own = rules::holder_of(state, stepped::kept_token(claim.token));
  const bool is_ours = own != state.holders.end() && !own->broken &&
                       !rules::is_over(*own, moment, rules::ClockLiveness(moment));
  if (!is_ours) co_return Storing::not_ours;
  const auto now = Clock::now();
  const auto fresh_until = later(now, lifetime.ttl);
  service_.values[claim.lock] = {bytes, now, fresh_until,
                                 later(fresh_until, lifetime.stale)};
  co_return Storing::stored;
}

asio::awaitable<void> MemoryStore::forget(const LockName& lock, Wakeup& wakeup) {
  co_await reach(wakeup);
  service_.values.erase(lock);
}

asio::awaitable<RateAnswer> MemoryStore::admit(const RateClaim& claim, Wakeup& wakeup) {
  co_await reach(wakeup);
  if (admitted_ && admitted_->first == claim.token) co_return admitted_->second;
  auto answer = rules::admit(service_.limits[claim.limit], claim, Clock::now());
  if (std::holds_alternative<Admitted>(answer)) admitted_.emplace(claim.token, answer);
  co_return answer;
}

asio::awaitable<void> MemoryStore::withdraw(const RateClaim& claim, Wakeup& wakeup) {
  co_await reach(wakeup);
  rules::withdraw(service_.limits[claim.limit], claim.token);
}

asio::awaitable<LimitInfo> MemoryStore::look(const LockName& limit, Wakeup& wakeup) {
  co_await reach(wakeup);
  co_return rules::look(service_.limits[limit], Clock::now());
}

asio::awaitable<void> MemoryStore::reset(const LockName& limit, Wakeup& wakeup) {
  co_await reach(wakeup);
  service_.limits.erase(limit);
}

asio::awaitable<Admission> MemoryStore::admit_fence(const LockName& resource, Fence fence,
                                                    Wakeup& wakeup) {
  co_await reach(wakeup);
  auto& greatest = service_.registers[resource];
  if (fence < greatest) co_return Admission::stale;
  greatest = fence;
  co_return Admission::admitted;
}

}  // namespace dlock
