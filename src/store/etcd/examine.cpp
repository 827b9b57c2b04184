// Collects the facts about a cluster that matter to locks. It leaves nothing behind: the
// trial write never takes effect, and the lease is revoked.
#include <algorithm>
#include <utility>

#include "store/etcd/calls.hpp"
#include "store/etcd/health.hpp"
#include "store/etcd/keys.hpp"
#include "store/etcd/plan.hpp"
#include "store/etcd/verdict.hpp"
#include "store/round_trips.hpp"
#include "util/random.hpp"

namespace dlock::etcd {
namespace {

constexpr int round_trips_measured = 20;

int trips_to_renew(const Access& access) {
  constexpr int connect_and_ask = 2;
  constexpr int tls = 2;
  return connect_and_ask + (access.tls ? tls : 0) + (access.user.empty() ? 0 : 1);
}

class Examiner {
 public:
  Examiner(asio::io_context& context, const Access& access, const std::string& name_space,
           milliseconds timeout, Wakeup& wakeup)
      : calls_(context, access, timeout), wakeup_(wakeup) {
    facts.user = access.user;
    facts.prefix = namespace_prefix(name_space);
    facts.trips_to_renew = trips_to_renew(access);
  }

  // First each member, then the cluster.
  asio::awaitable<void> examine() {
    for (const auto& server : calls_.access().members) {
      auto member = co_await ask_member(server);
      facts.named.push_back(std::move(member));
    }
    try {
      co_await ask_cluster();
      co_await try_to_write();
      co_await measure();
    } catch (const Failure& failure) {
      facts.failure = let_pass(failure);
    }
  }

  Facts facts;

 private:
  // A shortage on this machine says nothing about the cluster.
  static Failure let_pass(const Failure& failure) {
    if (failure.kind() == Failure::Kind::exhausted ||
        failure.kind() == Failure::Kind::interrupted) {
      throw failure;
    }
    return failure;
  }

  template <typename Answer, typename Question>
  asio::awaitable<Answer> ask(Calls& calls, Question question) {
    std::vector<Request> requests;
    requests.emplace_back(std::move(question));
    auto results = co_await calls.together(std::move(requests), Repeat::freely,
                                           calls.budget_end(), wakeup_);
    co_return std::get<Answer>(std::move(results.front()));
  }

  // Without a login, which may need the other members; if the member requires one, with
  // it.
  asio::awaitable<MemberFacts> ask_member(ServerAddress server) {
    MemberFacts member;
    member.server = server.shown();
    Access access = calls_.access();
    access.members.assign(1, server);
    Access anonymous = access;
    anonymous.user.clear();
    try {
      member.status = co_await status_for(anonymous);
    } catch (const Failure& failure) {
      member.failure = let_pass(failure);
    }
    if (member.status || member.failure || access.user.empty()) co_return member;
    try {
      member.status = co_await status_for(access);
    } catch (const Failure& failure) {
      let_pass(failure);  // the member has replied; ask_cluster() reports a refused login
    }
    co_return member;
  }

  // Nothing if the member replies, but not with its status.
  asio::awaitable<std::optional<StatusResult>> status_for(const Access& access) {
    Calls calls(calls_.context(), access, calls_.timeout());
    try {
      co_return co_await ask<StatusResult>(calls, StatusRequest{});
    } catch (const Failure& failure) {
      if (!is_permission_denied(failure) && !is_login_required(failure)) throw;
    }
    co_return std::nullopt;
  }

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
      co_return co_await ask<Answer>(calls_, std::move(question));
    } catch (const Failure& failure) {
      if (!is_permission_denied(failure)) throw;
    }
    co_return std::nullopt;
  }

  asio::awaitable<void> measure_login() {
    AuthenticateRequest login;
    login.user = calls_.access().user;
    login.password = password_of(calls_.access());
    const auto began = Clock::now();
    const auto result = co_await ask<AuthenticateResult>(calls_, std::move(login));
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
    shortest.id = 1 + static_cast<std::int64_t>(random_up_to(INT64_MAX - 1));
    shortest.ttl = 1;
    try {
      co_await calls_.txn(std::move(txn), Repeat::freely, calls_.budget_end(), wakeup_);
      const auto granted =
          co_await calls_.lease_grant(shortest, calls_.budget_end(), wakeup_);
      facts.least_ttl = granted.ttl;
      const LeaseKeepAliveRequest keep{shortest.id};
      const auto alive =
          co_await calls_.lease_keep_alive(keep, calls_.budget_end(), wakeup_);
      facts.answers_keep_alive = !alive.is_unanswered && alive.term != 0;
      LeaseRevokeRequest back;
      back.id = shortest.id;
      co_await calls_.lease_revoke(back, calls_.budget_end(), wakeup_);
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
      co_await calls_.range(look, calls_.budget_end(), wakeup_);
      facts.round_trips.emplace_back(Clock::now() - began);
    }
  }

  Calls calls_;
  Wakeup& wakeup_;
};

}  // namespace

asio::awaitable<Examination> examine(const Plan& plan, const std::string& name_space,
                                     milliseconds timeout, asio::io_context& context,
                                     Wakeup& wakeup) {
  Examiner examiner(context, plan.access, name_space, timeout, wakeup);
  co_await examiner.examine();
  Examination examination;
  examination.findings = findings_of(examiner.facts);
  examination.round_trip = median_of(examiner.facts.round_trips);
  examination.smallest_ttl = smallest_ttl_of(examiner.facts);
  co_return examination;
}

}  // namespace dlock::etcd
