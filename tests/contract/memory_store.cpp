#include "tests/contract/memory_store.hpp"

#include <unistd.h>

#include <algorithm>

#include "lock/history.hpp"
#include "rules/granting.hpp"
#include "rules/look.hpp"
#include "rules/queue.hpp"
#include "rules/runs.hpp"
#include "rules/takeover.hpp"
#include "util/host.hpp"
#include "util/users.hpp"

namespace dlock {
namespace {

using rules::Consequences;
using rules::Moment;

void name_user(std::string& user) {
  user = user_name(static_cast<uid_t>(std::stoul(user)));
}

class MemoryClaimant final : public Claimant {
 public:
  MemoryClaimant(MemoryService& service, const MemoryStore& store, const Claim& claim)
      : Claimant(claim), service_(service), store_(store) {
    party_.token = claim.token;
    party_.session = ++service_.last_session;
    party_.pid = ::getpid();
    party_.user = std::to_string(::geteuid());
    party_.host = host_name();
    service_.clients[party_.session] = nullptr;
  }
  ~MemoryClaimant() override {
    service_.clients.erase(party_.session);
    service_.listeners.erase(party_.session);
    Consequences then;
    auto& state = service_.locks[claim().lock];
    rules::tidy(state, Moment::now(), service_, then);
    service_.carry_out(state, then);
    // A store that the kernel notifies of a death would wake the next waiter.
    for (const auto& waiter : state.waiters) service_.wake(waiter.party.session);
  }

  asio::awaitable<Answer> ask(Queue queue, Wakeup& wakeup) override {
    co_await store_.reach(wakeup);
    service_.clients[party_.session] = &wakeup;
    auto& state = service_.locks[claim().lock];
    Consequences then;
    const auto now = Moment::now();
    auto answer = rules::ask(state, {claim(), party_, queue}, now, service_, then);
    service_.carry_out(state, then);
    if (!then.broken.empty()) service_.tell_holders(claim().lock);
    if (std::holds_alternative<Grant>(answer)) {
      holder_ = *rules::holder_of(state, claim().token);
      note_taker(state);
    }
    if (auto* busy = std::get_if<Busy>(&answer)) {
      for (auto& holder : busy->holders) name_user(holder.user);
    }
    co_return answer;
  }

  asio::awaitable<void> await_turn(Wakeup& wakeup, Clock::time_point until) override {
    const auto& state = service_.locks[claim().lock];
    const auto watch = rules::waits_for(state, claim().token, Moment::now());
    co_await wakeup.wait_until(std::min(until, watch.ask_again));
  }

  asio::awaitable<Release> release(const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override {
    co_await store_.reach(wakeup);
    auto& state = service_.locks[claim().lock];
    const bool has_run = end && holder_;
    if (has_run && !end->lost) {
      note_taker(state);
      if (const auto loss = rules::loss_of(state, claim().token)) {
        co_return release_reporting(*loss);
      }
    }
    Consequences then;
    const auto now = Moment::now();
    const auto answer = rules::release(state, claim().token, end, now, service_, then);
    const bool was_ours = answer == Release::released;
    if (has_run && !was_ours) rules::record_loss(state, *holder_, *end, now);
    service_.carry_out(state, then);
    if (end && (was_ours || has_run)) record_past_run(state, *state.last_run);
    holder_.reset();
    co_return answer;
  }

  asio::awaitable<Renewal> renew(Wakeup& wakeup) override {
    co_await store_.reach(wakeup);
    auto& state = service_.locks[claim().lock];
    note_taker(state);
    if (claim().attached) co_return renewal_in(state);
    Consequences then;
    keep_ttl(rules::ttl_to_set(state, claim()));
    const auto renewal =
        rules::renew(state, claim().token, claim().ttl, Moment::now(), service_, then);
    service_.carry_out(state, then);
    co_return renewal;
  }

  std::optional<Taker> taken_by() const override { return taken_by_; }

  std::unique_ptr<LeaseNews> listen(std::function<void()> heard) override {
    service_.listeners[party_.session] = {claim().lock, std::move(heard)};
    return std::make_unique<LeaseNews>();
  }

  asio::awaitable<void> started(const CommandProcess& process, Wakeup& wakeup) override {
    co_await store_.reach(wakeup);
    rules::record_command(service_.locks[claim().lock], claim().token, process);
  }

 private:
  void note_taker(rules::State& state) {
    const auto own = rules::holder_of(state, claim().token);
    if (own == state.holders.end() || !own->taken_by) return;
    taken_by_ = *own->taken_by;
    name_user(taken_by_->user);
  }

  Renewal renewal_in(const rules::State& state) const {
    const auto loss = rules::loss_of(state, claim().token);
    if (!loss) return Renewal::confirmed;
    if (*loss == Loss::broken) return Renewal::broken;
    return *loss == Loss::taken_over ? Renewal::taken_over : Renewal::gone;
  }

  MemoryService& service_;
  const MemoryStore& store_;
  rules::Party party_;
  std::optional<rules::Holder> holder_;  // as it was when granted
  std::optional<Taker> taken_by_;
};

}  // namespace

void MemoryService::carry_out(rules::State& state, const Consequences& consequences) {
  for (const auto& run : consequences.vanished) record_past_run(state, run);
  for (const auto session : consequences.wake) wake(session);
}

void MemoryService::wake(rules::Session session) {
  const auto client = clients.find(session);
  if (client != clients.end() && client->second != nullptr) client->second->notify();
}

void MemoryService::tell_holders(const LockName& lock) {
  for (const auto& [session, listener] : listeners) {
    if (listener.first == lock) listener.second();
  }
}

std::unique_ptr<Claimant> MemoryStore::claimant(const Claim& claim) {
  return std::make_unique<MemoryClaimant>(service_, *this, claim);
}

asio::awaitable<void> MemoryStore::reach(Wakeup& wakeup) const {
  const auto give_up_at = Clock::now() + timeout_;
  while (service_.is_held_up) {
    if (wakeup.gives_up()) throw Failure(Failure::Kind::interrupted, "interrupted");
    if (Clock::now() >= give_up_at) {
      throw Failure(Failure::Kind::unreachable, "the store does not answer");
    }
    co_await wakeup.wait_until(give_up_at);
  }
}

asio::awaitable<std::vector<Broken>> MemoryStore::break_leases(const LockName& lock,
                                                               const Break& order,
                                                               Wakeup& wakeup) {
  co_await reach(wakeup);
  auto& state = service_.locks[lock];
  Consequences then;
  const auto now = Moment::now();
  const Taker self{std::to_string(::geteuid()), host_name(), false, order.by_force};
  std::vector<Broken> broken;
  for (const auto& holder :
       rules::break_leases(state, order.fences, self, now, service_, then)) {
    auto& added = broken.emplace_back();
    added.holder = rules::info_of(holder, now);
    name_user(added.holder.user);
  }
  service_.carry_out(state, then);
  service_.tell_holders(lock);
  co_return broken;
}

asio::awaitable<LockInfo> MemoryStore::inspect(const LockName& lock, Wakeup& wakeup) {
  co_await reach(wakeup);
  auto info = rules::info_of(service_.locks[lock], lock, Moment::now(), service_);
  for (auto& holder : info.holders) name_user(holder.user);
  for (auto& waiter : info.waiters) name_user(waiter.user);
  co_return info;
}

asio::awaitable<std::vector<LockInfo>> MemoryStore::list(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup& wakeup) {
  std::vector<LockInfo> locks;
  for (const auto& [lock, state] : service_.locks) {
    if (lock.name_space != name_space || !matches(lock.name)) continue;
    auto info = co_await inspect(lock, wakeup);
    if (info.holders.empty() && info.waiters.empty() && !info.last_run) continue;
    locks.push_back(std::move(info));
  }
  co_return locks;
}

asio::awaitable<std::vector<RunInfo>> MemoryStore::history(const LockName& lock,
                                                           Wakeup& wakeup) {
  co_await reach(wakeup);
  const auto& state = service_.locks[lock];
  auto runs = rules::runs_of_holders(state, Moment::now(), service_);
  runs.insert(runs.end(), state.runs.begin(), state.runs.end());
  co_return as_history(std::move(runs), wall_now());
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
  if (rules::loss_of(service_.locks[claim.lock], claim.token)) {
    co_return Storing::not_ours;
  }
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
