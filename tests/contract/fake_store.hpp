// A store in memory that is obviously right, for tests of what relies on stores.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lock/dedupe.hpp"
#include "lock/history.hpp"
#include "lock/store.hpp"

namespace dlock {

class FakeStore;

// What the clients of one fake service share.
struct FakeService {
  struct Party {
    const FakeStore* client = nullptr;
    Claim claim;
    Wakeup* wakeup = nullptr;
    Grant grant;
    WallTime since{};
    Clock::time_point from;
    bool runs = false;
    std::optional<Clock::time_point> ends_at;  // by the clock: detached, or held on
    bool ended = false;                        // its run has
    bool broken = false;
  };
  struct Lock {
    std::uint64_t last_fence = 0;
    unsigned slots = 1;
    std::vector<Party> holders;
    std::vector<Party> queue;
    std::optional<RunInfo> last_run;
    std::vector<RunInfo> runs;
    PastRuns past;
    std::map<Token, RunInfo> dismissed;
  };

  struct Limit {
    Rate rate;
    std::vector<std::pair<Clock::time_point, Token>> stamps;
    std::vector<std::pair<Clock::time_point, Token>> turns;
  };

  std::map<LockName, Lock> locks;
  struct Stored {
    std::string bytes;
    Clock::time_point fresh_until;
    Clock::time_point there_until;
  };

  std::map<LockName, Fence> registers;
  std::map<LockName, Limit> limits;
  std::map<LockName, Stored> values;
  bool is_held_up = false;  // answers nobody
  std::map<const FakeStore*, std::pair<LockName, LeaseWatcher*>> kept;
};

// One client. Its lease, unless it is detached, and its place end with it, as those of a
// process that dies.
//
// There are no promises: who is first in line is granted the lock when it asks, and
// everybody in line is told to ask whenever anything has changed.
class FakeStore final : public Store {
 public:
  FakeStore(FakeService& service, milliseconds timeout)
      : service_(service), timeout_(timeout) {}
  FakeStore(const FakeStore&) = delete;
  FakeStore& operator=(const FakeStore&) = delete;
  ~FakeStore() override {
    for (auto& [name, lock] : service_.locks) {
      for (const auto& holder : lock.holders) {
        if (holder.client == this && holder.runs) note(lock, vanished(holder));
      }
      const auto is_ours = [this](const Party& party) { return party.client == this; };
      std::erase_if(lock.holders, [&](const Party& party) {
        return is_ours(party) && party.claim.attached;
      });
      std::erase_if(lock.queue, is_ours);
      wake_all(lock);
    }
    stop_keeping();
  }

  std::string url() const override { return "fake:"; }

  asio::awaitable<Answer> ask(const Claim& claim, Queue queue, Wakeup& wakeup) override {
    co_await reach(wakeup);
    auto& lock = lock_of(claim);
    if (const auto own = find(lock.holders, claim); own != lock.holders.end()) {
      lend(*own, claim.ttl);
      co_return own->grant;
    }
    if (const auto own = lock.dismissed.find(claim.token); own != lock.dismissed.end()) {
      co_return Deduplicated{own->second};
    }
    const auto place = find(lock.queue, claim);
    const bool queued = place != lock.queue.end();
    if (lock.holders.empty() && lock.queue.size() == (queued ? 1u : 0u)) {
      lock.slots = claim.slots;
    } else if (lock.slots != claim.slots) {
      co_return SlotsDiffer{lock.slots};
    }
    if (claim.dedupe) {
      if (const auto above = blocked_from_above(lock, claim)) co_return HeldAbove{*above};
      if (const auto run = counting_run(lock, *claim.dedupe, queue)) {
        if (queued) lock.queue.erase(place);
        co_return Deduplicated{*run};
      }
    }
    if (admits(lock, claim,
               joins_outer_reader(lock, claim) ? lock.queue.begin() : place)) {
      if (queued) lock.queue.erase(place);
      granted_ = claim.token;
      co_return grant(lock, claim, wakeup);
    }
    if (!queued) {
      if (const auto above = blocked_from_above(lock, claim)) co_return HeldAbove{*above};
      if (queue == Queue::join) lock.queue.push_back(party(claim, wakeup));
    }
    co_return busy(lock, claim);
  }

  asio::awaitable<void> await_turn(const Claim& claim, Wakeup& wakeup,
                                   Clock::time_point until) override {
    for (const auto& holder : lock_of(claim).holders) {
      until = std::min(until, holder.ends_at.value_or(until));
    }
    co_await wakeup.wait_until(until);
  }

  asio::awaitable<Release> release(const Claim& claim, const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override {
    co_await reach(wakeup);
    auto& lock = lock_of(claim);
    auto outcome = Release::not_ours;
    if (end && !end->lost && granted_ == claim.token) {
      const auto own = find(lock.holders, claim);
      if (own == lock.holders.end()) co_return Release::gone;
      if (own->broken) co_return Release::broken;
    }
    granted_.reset();
    if (const auto own = find(lock.holders, claim); own != lock.holders.end()) {
      if (end) {
        note(lock, ended(*own, *end));
        if (end->is_shared) dismiss_joined(lock, ended(*own, *end));
      }
      const auto kept_until = own->from + claim.min_hold;
      if (end && kept_until > Clock::now() && !own->broken) {
        own->client = nullptr;
        own->claim.token = {};
        own->ended = true;
        own->ends_at = kept_until;
      } else {
        lock.holders.erase(own);
      }
      outcome = Release::released;
      dismiss(lock);
    }
    lock.dismissed.erase(claim.token);
    if (const auto own = find(lock.queue, claim); own != lock.queue.end()) {
      lock.queue.erase(own);
    }
    wake_all(lock);
    co_return outcome;
  }

  asio::awaitable<void> started(const Claim& claim, const CommandProcess&,
                                Wakeup& wakeup) override {
    co_await reach(wakeup);
    auto& lock = lock_of(claim);
    const auto own = find(lock.holders, claim);
    if (own != lock.holders.end()) own->runs = true;
  }

  asio::awaitable<ValueLookup> get_value(const LockName& lock, Wakeup& wakeup) override {
    co_await reach(wakeup);
    ValueLookup found;
    const auto stored = service_.values.find(lock);
    const auto now = Clock::now();
    if (stored != service_.values.end() && now < stored->second.there_until) {
      found.value = Value{stored->second.bytes, now < stored->second.fresh_until};
    }
    co_return found;
  }

  asio::awaitable<Storing> put_value(const Claim& claim, const std::string& bytes,
                                     Lifetime lifetime, Wakeup& wakeup) override {
    co_await reach(wakeup);
    auto& lock = lock_of(claim);
    const auto own = find(lock.holders, claim);
    if (own == lock.holders.end() || own->broken) co_return Storing::not_ours;
    const auto fresh_until = later(Clock::now(), lifetime.ttl);
    service_.values[claim.lock] = {bytes, fresh_until,
                                   later(fresh_until, lifetime.stale)};
    co_return Storing::stored;
  }

  asio::awaitable<void> forget_value(const LockName& lock, Wakeup& wakeup) override {
    co_await reach(wakeup);
    service_.values.erase(lock);
  }

  asio::awaitable<Renewal> renew(const Claim& claim, Wakeup& wakeup) override {
    co_await reach(wakeup);
    auto& lock = lock_of(claim);
    const auto own = find(lock.holders, claim);
    if (own == lock.holders.end()) {
      const bool others = !lock.holders.empty() && lock.slots == 1;
      co_return others ? Renewal::taken_over : Renewal::gone;
    }
    lend(*own, claim.ttl);
    wake_all(lock);
    co_return Renewal::confirmed;
  }

  void start_keeping(const Claim& claim, const Grant&, LeaseTiming,
                     LeaseWatcher& watcher) override {
    service_.kept[this] = {claim.lock, &watcher};
    auto& lock = lock_of(claim);
    const auto own = find(lock.holders, claim);
    if (own != lock.holders.end() && own->broken) watcher.forfeit(Loss::broken);
  }
  void stop_keeping() override { service_.kept.erase(this); }

  asio::awaitable<std::vector<Broken>> break_leases(const LockName& name,
                                                    const std::vector<Fence>& fences,
                                                    Wakeup& wakeup) override {
    co_await reach(wakeup);
    std::vector<Broken> broken;
    auto& lock = service_.locks[name];
    drop_ended(lock);
    for (auto& holder : lock.holders) {
      if (!contains(fences, holder.grant.fence)) continue;
      broken.push_back({shown(holder), {}});
      if (std::exchange(holder.broken, true)) continue;
      const auto kept = service_.kept.find(holder.client);
      if (kept != service_.kept.end()) kept->second.second->forfeit(Loss::broken);
    }
    std::erase_if(lock.holders, [](const Party& p) { return p.broken && p.ends_at; });
    wake_all(lock);
    co_return broken;
  }

  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) override {
    co_await reach(wakeup);
    co_return info(lock);
  }

  asio::awaitable<std::vector<LockInfo>> list(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup) override {
    co_await reach(wakeup);
    std::vector<LockInfo> locks;
    for (const auto& [name, lock] : service_.locks) {
      const auto shown = info(name);
      const bool used =
          !shown.holders.empty() || !shown.waiters.empty() || shown.last_run;
      if (name.name_space == name_space && matches(name.name) && used) {
        locks.push_back(shown);
      }
    }
    co_return locks;
  }

  asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                Wakeup& wakeup) override {
    co_await reach(wakeup);
    auto runs = service_.locks[lock].runs;
    for (const auto& holder : service_.locks[lock].holders) {
      if (auto run = is_over(holder) ? std::nullopt : run_of(shown(holder))) {
        runs.push_back(std::move(*run));
      }
    }
    co_return as_history(std::move(runs), wall_now());
  }

  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override {
    co_await reach(wakeup);
    auto& greatest = service_.registers[resource];
    if (fence < greatest) co_return Admission::stale;
    greatest = fence;
    co_return Admission::admitted;
  }

  // Every turn is found by walking through all that will be admitted before it.
  asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) override {
    co_await reach(wakeup);
    auto& limit = service_.limits[claim.limit];
    const auto now = Clock::now();
    const auto is_ours = [&](const auto& entry) { return entry.second == claim.token; };
    std::erase_if(limit.stamps, [&](const auto& stamp) {
      return stamp.first + limit.rate.period <= now;
    });
    std::erase_if(limit.turns,
                  [&](const auto& turn) { return turn.first + turn_holds <= now; });
    if (limit.rate != claim.rate && limit.stamps.size() + limit.turns.size() > 0) {
      co_return RateDiffers{limit.rate};
    }
    limit.rate = claim.rate;
    const auto place = std::find_if(limit.turns.begin(), limit.turns.end(), is_ours);
    const bool again = std::any_of(limit.stamps.begin(), limit.stamps.end(), is_ours);
    const bool in_line = place != limit.turns.end() || claim.patience.count() > 0;
    const auto turn = turn_behind(limit, place, now, in_line);
    const bool admitted = again || turn <= now;
    const bool waits =
        !admitted && claim.patience.count() > 0 && turn - now <= claim.patience;
    if (!again && admitted) limit.stamps.emplace_back(now, claim.token);
    if (waits && place != limit.turns.end()) {
      place->first = turn;
    } else if (waits) {
      limit.turns.emplace_back(turn, claim.token);
    } else {
      std::erase_if(limit.turns, is_ours);
    }
    const auto used = limit.stamps.size() + limit.turns.size();
    const auto remaining =
        used < limit.rate.most ? limit.rate.most - static_cast<unsigned>(used) : 0u;
    const auto next = admitted ? turn_behind(limit, limit.turns.end(), now, false) : turn;
    const auto next_in = std::chrono::ceil<milliseconds>(next - now);
    if (admitted) co_return Admitted{remaining, next_in};
    co_return NotAdmitted{remaining, next_in, waits};
  }

  asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) override {
    co_await reach(wakeup);
    std::erase_if(service_.limits[claim.limit].turns,
                  [&](const auto& turn) { return turn.second == claim.token; });
  }

 private:
  using Party = FakeService::Party;
  using Lock = FakeService::Lock;
  using Parties = std::vector<Party>;

  asio::awaitable<void> reach(Wakeup& wakeup) {
    const auto give_up_at = Clock::now() + timeout_;
    while (service_.is_held_up) {
      if (wakeup.gives_up()) throw Failure(Failure::Kind::interrupted, "interrupted");
      if (Clock::now() >= give_up_at) {
        throw Failure(Failure::Kind::unreachable, "the store does not answer");
      }
      co_await wakeup.wait_until(give_up_at);
    }
  }

  template <typename Turns>
  static Clock::time_point turn_behind(const FakeService::Limit& limit, Turns place,
                                       Clock::time_point now, bool passes_late_ones) {
    if (place == limit.turns.begin() && limit.stamps.size() < limit.rate.most) return now;
    std::vector<Clock::time_point> admitted;
    for (const auto& stamp : limit.stamps) admitted.push_back(stamp.first);
    const auto next = [&] {
      return admitted.size() < limit.rate.most
                 ? now
                 : std::max(now, *(admitted.end() - limit.rate.most) + limit.rate.period);
    };
    for (auto turn = limit.turns.begin(); turn != place; ++turn) {
      const bool late = turn->first + limit.rate.period <= now;
      if (late && passes_late_ones) continue;
      admitted.push_back(std::max(turn->first, next()));
    }
    return next();
  }

  // Without those whose time is over.
  Lock& lock_of(const Claim& claim) {
    auto& lock = service_.locks[claim.lock];
    drop_ended(lock);
    return lock;
  }

  static void drop_ended(Lock& lock) { std::erase_if(lock.holders, is_over); }

  Party party(const Claim& claim, Wakeup& wakeup) const {
    Party party;
    party.client = this;
    party.claim = claim;
    party.wakeup = &wakeup;
    party.since = wall_now();
    party.from = Clock::now();
    return party;
  }

  static bool is_over(const Party& holder) {
    return holder.ends_at && *holder.ends_at <= Clock::now();
  }

  static void lend(Party& holder, milliseconds ttl) {
    if (holder.claim.attached) return;
    holder.ends_at = later(Clock::now(), ttl);
    holder.grant.deadline = *holder.ends_at;
  }

  static bool contains(const std::vector<Fence>& fences, Fence fence) {
    return std::find(fences.begin(), fences.end(), fence) != fences.end();
  }

  static void note(Lock& lock, const RunInfo& run) {
    lock.last_run = run;
    lock.runs.push_back(run);
    if (lock.runs.size() > runs_kept) lock.runs.erase(lock.runs.begin());
    if (run.counts) lock.past.note(run);
  }

  static std::optional<RunInfo> counting_run(const Lock& lock, const Dedupe& dedupe,
                                             Queue queue) {
    const bool waits = dedupe.joins || (dedupe.retry_failed && queue == Queue::join);
    for (const auto& holder : lock.holders) {
      auto run = vanished(holder);
      if (waits || holder.ended || !run.counts) continue;
      run.outcome = "running";
      return run;
    }
    const auto* past = lock.past.counting_for(dedupe, wall_now());
    return past == nullptr ? std::nullopt : std::optional(*past);
  }

  static void dismiss(Lock& lock) {
    std::erase_if(lock.queue, [&](const Party& waiter) {
      if (!waiter.claim.dedupe) return false;
      const auto run = counting_run(lock, *waiter.claim.dedupe, Queue::join);
      if (!run) return false;
      lock.dismissed[waiter.claim.token] = *run;
      waiter.wakeup->notify();
      return true;
    });
  }

  static void dismiss_joined(Lock& lock, const RunInfo& run) {
    std::erase_if(lock.queue, [&](const Party& waiter) {
      if (!waiter.claim.dedupe || !waiter.claim.dedupe->joins) return false;
      lock.dismissed[waiter.claim.token] = run;
      waiter.wakeup->notify();
      return true;
    });
  }

  static Parties::iterator find(Parties& parties, const Claim& claim) {
    return std::find_if(parties.begin(), parties.end(), [&](const Party& party) {
      return !party.ended && party.claim.token == claim.token;
    });
  }

  // Those in line before `end` count as if they held the lock already.
  static bool admits(const Lock& lock, const Claim& claim, Parties::const_iterator end) {
    unsigned shared = 0;
    unsigned exclusive = 0;
    const auto add = [&](const Party& party) {
      ++(party.claim.mode == Mode::shared ? shared : exclusive);
    };
    std::for_each(lock.holders.begin(), lock.holders.end(), add);
    std::for_each(lock.queue.begin(), end, add);
    return claim.mode == Mode::shared ? exclusive == 0
                                      : shared == 0 && exclusive < lock.slots;
  }

  static bool is_above(const Claim& claim, const Party& holder) {
    return !holder.ended && std::find(claim.held_above.begin(), claim.held_above.end(),
                                      holder.grant.fence) != claim.held_above.end();
  }

  static bool joins_outer_reader(const Lock& lock, const Claim& claim) {
    return claim.mode == Mode::shared &&
           std::any_of(lock.holders.begin(), lock.holders.end(), [&](const Party& p) {
             return p.claim.mode == Mode::shared && is_above(claim, p);
           });
  }

  static std::optional<Fence> blocked_from_above(const Lock& lock, const Claim& claim) {
    std::optional<Fence> above;
    bool others = false;
    for (const auto& holder : lock.holders) {
      if (is_above(claim, holder)) {
        above = holder.grant.fence;
      } else {
        others = true;
      }
    }
    return claim.slots > 1 && others ? std::nullopt : above;
  }

  Grant grant(Lock& lock, const Claim& claim, Wakeup& wakeup) const {
    auto holder = party(claim, wakeup);
    lock.last_fence =
        std::max(lock.last_fence + 1, static_cast<std::uint64_t>(holder.since.count()));
    holder.grant.fence.number = lock.last_fence;
    while (claim.mode == Mode::exclusive && has_slot(lock, holder.grant.slot)) {
      ++holder.grant.slot;
    }
    lend(holder, claim.ttl);
    lock.holders.push_back(holder);
    dismiss(lock);
    return holder.grant;
  }

  static bool has_slot(const Lock& lock, unsigned slot) {
    return std::any_of(lock.holders.begin(), lock.holders.end(),
                       [&](const Party& p) { return p.grant.slot == slot; });
  }

  static Busy busy(Lock& lock, const Claim& claim) {
    Busy answer;
    for (const auto& holder : lock.holders) answer.holders.push_back(shown(holder));
    const auto own = find(lock.queue, claim);
    if (own != lock.queue.end()) {
      answer.place = static_cast<std::size_t>(own - lock.queue.begin()) + 1;
    }
    answer.queued = lock.queue.size();
    return answer;
  }

  static void wake_all(const Lock& lock) {
    for (const auto& waiter : lock.queue) waiter.wakeup->notify();
  }

  static milliseconds age(const Party& party) {
    return std::chrono::duration_cast<milliseconds>(Clock::now() - party.from);
  }

  static HolderInfo shown(const Party& holder) {
    HolderInfo info;
    info.fence = holder.grant.fence;
    info.slot = holder.grant.slot;
    info.host = "host";
    info.pid = holder.claim.on_behalf_of != 0 ? holder.claim.on_behalf_of : ::getpid();
    info.user = "user";
    info.command = holder.claim.command;
    info.label = holder.claim.label;
    info.since = holder.since;
    info.held = age(holder);
    info.broken = holder.broken;
    info.kept = holder.ended;
    info.attached = holder.claim.attached && !holder.ended;
    if (holder.ends_at) {
      info.expires_in = std::chrono::ceil<milliseconds>(*holder.ends_at - Clock::now());
    }
    return info;
  }

  static RunInfo vanished(const Party& holder) {
    RunInfo run;
    run.fence = holder.grant.fence;
    run.started = holder.since;
    run.host = "host";
    run.outcome = "vanished";
    run.counts = holder.claim.attached && holder.claim.mode == Mode::exclusive &&
                 holder.claim.slots == 1;
    return run;
  }

  static RunInfo ended(const Party& holder, const RunEnd& end) {
    auto run = vanished(holder);
    run.ended = wall_now();
    run.duration = end.duration;
    run.exit_code = end.exit_code;
    run.signal = end.signal;
    run.outcome = end.outcome;
    if (end.lost) run.reason = loss_name(*end.lost);
    return run;
  }

  LockInfo info(const LockName& name) const {
    LockInfo info;
    info.lock = name;
    const auto found = service_.locks.find(name);
    if (found == service_.locks.end()) return info;
    const auto& lock = found->second;
    info.last_run = lock.last_run;
    for (const auto& holder : lock.holders) {
      if (is_over(holder)) continue;
      info.mode = holder.claim.mode;
      info.holders.push_back(shown(holder));
    }
    for (const auto& waiter : lock.queue) {
      info.waiters.push_back({"host", ::getpid(), "user", waiter.since, age(waiter)});
    }
    const bool used = !info.holders.empty() || !info.waiters.empty();
    info.slots = used ? lock.slots : 1;
    const bool full = !info.holders.empty() && info.mode == Mode::shared;
    info.free = full ? 0 : info.slots - static_cast<unsigned>(info.holders.size());
    return info;
  }

  FakeService& service_;
  milliseconds timeout_;
  std::optional<Token> granted_;  // until it is given back
};

}  // namespace dlock
