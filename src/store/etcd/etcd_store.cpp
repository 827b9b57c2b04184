#include "store/etcd/etcd_store.hpp"

#include <algorithm>
#include <utility>

#include "store/checks.hpp"
#include "store/etcd/etcd_claimant.hpp"
#include "store/etcd/etcd_cluster.hpp"
#include "store/etcd/etcd_entry.hpp"
#include "store/etcd/etcd_health.hpp"
#include "store/etcd/etcd_steps.hpp"
#include "store/fan_out.hpp"

namespace dlock::etcd {

namespace {

// Fixed length, so that etcd's comparison of bytes compares the numbers.
std::string digits_of(Fence fence) {
  constexpr std::size_t width = 20;
  const auto digits = std::to_string(fence.number);
  return std::string(width - digits.size(), '0') + digits;
}

TxnRequest admission_of(const LockName& resource, Fence fence) {
  const auto key = register_key(resource);
  Compare is_greater;
  is_greater.key = key;
  is_greater.target = Compare::Target::value;
  is_greater.result = Compare::Result::greater;
  is_greater.value = digits_of(fence);
  PutRequest put;
  put.key = key;
  put.value = digits_of(fence);
  TxnRequest txn;
  txn.conditions.push_back(std::move(is_greater));
  txn.otherwise.emplace_back(std::move(put));
  return txn;
}

}  // namespace

asio::awaitable<Admission> EtcdRegisters::admit_fence(const LockName& resource,
                                                      Fence fence, Wakeup& wakeup) {
  auto request = admission_of(resource, fence);
  const auto call = calls_.new_call(wakeup);
  const auto result = co_await calls_.txn(std::move(request), Repeat::freely, call);
  co_return result.succeeded ? Admission::stale : Admission::admitted;
}

EtcdStore::EtcdStore(std::string url, std::unique_ptr<EtcdCalls> calls)
    : url_(std::move(url)),
      calls_(std::move(calls)),
      inspector_(*calls_),
      registers_(*calls_) {}

std::unique_ptr<Claimant> EtcdStore::claimant(const Claim& claim) {
  // Both would have to be known to all clients that decide by the queue.
  const auto refused = [](const std::string& option) {
    return Failure(Failure::Kind::unsupported,
                   "etcd does not support " + option +
                       ": its queue is shared with etcdctl lock, and is in the order in "
                       "which its entries were created");
  };
  if (claim.priority != 0) throw refused("--priority");
  if (claim.spreads) throw refused("--spread");
  return std::make_unique<EtcdClaimant>(*calls_, claim);
}

asio::awaitable<std::vector<Broken>> EtcdStore::break_leases(const LockName& lock,
                                                             const Break& order,
                                                             Wakeup& wakeup) {
  const auto call = calls_->new_call(wakeup);
  DayLease day_lease(*calls_, lock.name_space);
  auto request = look_at(lock);
  auto result = co_await calls_->txn(std::move(request), Repeat::freely, call);
  auto snapshot = snapshot_from(lock, result);
  auto self = own_taker(false);
  self.forced = order.by_force;
  auto decision = decide_on_break(snapshot, order, wall_now());
  const auto meant = std::move(decision.meant);
  for (; !decision.lose.empty();
       decision = decide_on_break(snapshot, order, wall_now())) {
    const StepContext step_context{lock, wall_now(), day_lease.id()};
    request = take_away(step_context, decision.lose, self);
    result = co_await calls_->txn(std::move(request), Repeat::freely, call);
    if (result.lease_gone) {
      co_await day_lease.set_up(call);
      request = look_at(lock);
      result = co_await calls_->txn(std::move(request), Repeat::freely, call);
    }
    snapshot = snapshot_from(lock, result, result.results.size() - 2);
  }
  std::vector<Broken> broken;
  broken.reserve(meant.size());
  for (const auto& holder : meant) broken.push_back({holder, {}});
  co_return broken;
}

std::unique_ptr<Store> store_of(std::string url, const EtcdAccess& access,
                                milliseconds timeout, asio::io_context& context) {
  return std::make_unique<EtcdStore>(
      std::move(url), std::make_unique<EtcdCalls>(context, access, timeout));
}

std::unique_ptr<Store> open(const StoreUrl& url, milliseconds timeout,
                            asio::io_context& context) {
  return store_of(url.text(), access_of(url), timeout, context);
}

// Collects the facts about a cluster that matter to locks. It leaves nothing behind: the
// trial write never takes effect, and the lease is revoked.

namespace {

constexpr int round_trips_measured = 20;

int trips_to_renew(const EtcdAccess& access) {
  constexpr int connect_and_ask = 2;
  constexpr int tls = 2;
  return connect_and_ask + (access.tls ? tls : 0) + (access.login.user.empty() ? 0 : 1);
}

template <typename Answer, typename Question>
asio::awaitable<Answer> ask(EtcdCalls& calls, Question question, Wakeup& wakeup) {
  std::vector<Request> requests;
  requests.emplace_back(std::move(question));
  auto results = co_await calls.together(std::move(requests), Repeat::freely,
                                         calls.new_call(wakeup));
  co_return std::get<Answer>(std::move(results.front()));
}

// Nothing if the member replies, but not with its status.
asio::awaitable<std::optional<StatusResult>> status_for(asio::io_context& context,
                                                        const EtcdAccess& access,
                                                        milliseconds timeout,
                                                        Wakeup& wakeup) {
  EtcdCalls calls(context, access, timeout);
  try {
    co_return co_await ask<StatusResult>(calls, StatusRequest{}, wakeup);
  } catch (const Failure& failure) {
    if (!is_permission_denied(failure) && !is_login_required(failure)) throw;
  }
  co_return std::nullopt;
}

// The only member of `access`: without a login, which may need the other members; if the
// member requires one, with it.
asio::awaitable<MemberFacts> ask_member(asio::io_context& context, EtcdAccess access,
                                        milliseconds timeout, Wakeup& wakeup) {
  MemberFacts member;
  member.server = access.members.front().shown();
  EtcdAccess anonymous = access;
  anonymous.login = {};
  try {
    member.status = co_await status_for(context, anonymous, timeout, wakeup);
  } catch (const Failure& failure) {
    member.failure = let_pass(failure);
  }
  if (member.status || member.failure || access.login.user.empty()) co_return member;
  try {
    member.status = co_await status_for(context, access, timeout, wakeup);
  } catch (const Failure& failure) {
    let_pass(failure);  // the member has replied; ask_cluster() reports a refused login
  }
  co_return member;
}

asio::awaitable<std::vector<MemberFacts>> ask_members(asio::io_context& context,
                                                      const EtcdAccess& access,
                                                      milliseconds timeout,
                                                      Wakeup& wakeup) {
  const auto ask_one = [&context, access, timeout](std::size_t number, Wakeup& own) {
    EtcdAccess only = access;
    only.members.assign(1, access.members[number]);
    return ask_member(context, std::move(only), timeout, own);
  };
  co_return co_await ask_all<MemberFacts>(context, access.members.size(), ask_one,
                                          wakeup);
}

// With the members first that have replied, so that the others cost no time.
EtcdAccess replied_first(EtcdAccess access, const std::vector<MemberFacts>& named) {
  std::vector<ServerAddress> silent;
  std::vector<ServerAddress> sorted;
  for (std::size_t i = 0; i < named.size(); ++i) {
    (named[i].failure ? silent : sorted).push_back(access.members[i]);
  }
  sorted.insert(sorted.end(), silent.begin(), silent.end());
  access.members = std::move(sorted);
  return access;
}

class ClusterExaminer {
 public:
  ClusterExaminer(asio::io_context& context, const EtcdAccess& access,
                  std::vector<MemberFacts> members, const std::string& name_space,
                  milliseconds timeout, Wakeup& wakeup)
      : calls_(context, replied_first(access, members), timeout), wakeup_(wakeup) {
    facts.named = std::move(members);
    facts.user = access.login.user;
    facts.prefix = namespace_prefix(name_space);
    facts.trips_to_renew = trips_to_renew(access);
  }

  asio::awaitable<void> examine() {
    try {
      co_await ask_cluster();
      co_await try_to_write();
      co_await measure();
    } catch (const Failure& failure) {
      facts.failure = let_pass(failure);
    }
  }

  EtcdFacts facts;

 private:
  asio::awaitable<void> ask_cluster() {
    if (!facts.user.empty()) co_await measure_login();
    if (auto alarms = co_await ask_if_permitted<AlarmsResult>(AlarmsRequest{})) {
      facts.alarms = std::move(alarms->alarms);
    }
    if (auto members = co_await ask_if_permitted<MemberListResult>(MemberListRequest{})) {
      facts.members = std::move(members->members);
    }
  }

  template <typename Answer, typename Question>
  asio::awaitable<std::optional<Answer>> ask_if_permitted(Question question) {
    try {
      co_return co_await ask<Answer>(calls_, std::move(question), wakeup_);
    } catch (const Failure& failure) {
      if (!is_permission_denied(failure)) throw;
    }
    co_return std::nullopt;
  }

  asio::awaitable<void> measure_login() {
    AuthenticateRequest login;
    login.user = calls_.access().login.user;
    net::Budget budget(calls_.new_call(wakeup_), calls_.name());
    login.password = co_await password_of(calls_.access(), calls_.context(), budget);
    budget.hand_on();
    const auto began = Clock::now();
    const auto result =
        co_await ask<AuthenticateResult>(calls_, std::move(login), wakeup_);
    facts.login_took = Clock::now() - began;
    facts.login_is_off = result.token.empty();
  }

  // etcd checks permissions and the quota for everything that a transaction might do,
  // even if its condition does not hold.
  asio::awaitable<void> try_to_write() {
    Compare never;
    never.key = facts.prefix;
    never.number = -1;
    PutRequest put;
    put.key = facts.prefix;
    DeleteRequest deletion;
    deletion.key = facts.prefix + ".";  // a key may occur only once
    TxnRequest txn;
    txn.conditions.push_back(never);
    txn.then.emplace_back(std::move(put));
    txn.then.emplace_back(std::move(deletion));
    LeaseGrantRequest shortest;
    shortest.ttl = 1;
    try {
      co_await calls_.txn(std::move(txn), Repeat::freely, calls_.new_call(wakeup_));
      const auto granted =
          co_await calls_.lease_grant(shortest, calls_.new_call(wakeup_));
      facts.least_ttl = granted.ttl;
      const LeaseKeepAliveRequest keep{granted.id};
      const auto alive = co_await calls_.lease_keep_alive(keep, calls_.new_call(wakeup_));
      facts.answers_keep_alive = !alive.is_unanswered && alive.term != 0;
      LeaseRevokeRequest back;
      back.id = granted.id;
      co_await calls_.lease_revoke(back, calls_.new_call(wakeup_));
    } catch (const Failure& failure) {
      const bool is_about_login =
          failure.kind() == Failure::Kind::rejected && !is_permission_denied(failure);
      if (is_about_login) throw;
      facts.refuses_work = let_pass(failure);
    }
  }

  asio::awaitable<void> measure() {
    RangeRequest look;
    look.key = facts.prefix;
    for (int i = 0; i < round_trips_measured && !facts.refuses_work; ++i) {
      const auto began = Clock::now();
      co_await calls_.range(look, calls_.new_call(wakeup_));
      facts.round_trips.emplace_back(Clock::now() - began);
    }
  }

  EtcdCalls calls_;
  Wakeup& wakeup_;
};

}  // namespace

asio::awaitable<Examination> examine(const StoreUrl& url, const std::string& name_space,
                                     milliseconds timeout, asio::io_context& context,
                                     Wakeup& wakeup) {
  const auto access = access_of(url);
  auto members = co_await ask_members(context, access, timeout, wakeup);
  const bool is_reached = std::any_of(members.begin(), members.end(),
                                      [](const auto& one) { return !one.failure; });
  ClusterExaminer examiner(context, access, std::move(members), name_space, timeout,
                           wakeup);
  if (is_reached) co_await examiner.examine();
  Examination examination;
  examination.findings = findings_of(examiner.facts);
  examination.round_trip = median_of(examiner.facts.round_trips);
  examination.smallest_ttl = smallest_ttl_of(examiner.facts);
  co_return examination;
}

}  // namespace dlock::etcd
