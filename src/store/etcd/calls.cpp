#include "store/etcd/calls.hpp"

#include <algorithm>
#include <utility>

#include "store/etcd/cluster.hpp"
#include "store/etcd/messages.hpp"

namespace dlock::etcd {
namespace {

// Requests that a member answers from its own data.
bool needs_leader(const Request& request) {
  return !std::holds_alternative<StatusRequest>(request) &&
         !std::holds_alternative<AlarmsRequest>(request) &&
         !std::holds_alternative<MemberListRequest>(request);
}

milliseconds left_until(Clock::time_point until) {
  return std::chrono::ceil<milliseconds>(until - Clock::now());
}

// The result, or why there is none.
std::optional<CallFailure> take_reply(const Request& request, const Reply& reply,
                                      const std::string& server,
                                      std::vector<Result>& results) {
  auto result = answer_in(request, reply.outcome);
  if (!result && reply.outcome.code != Code::ok) {
    return call_failure(reply.outcome, server);
  }
  if (!result) result = decoded(request, reply.message);
  if (!result) {
    const Outcome nonsense{Code::internal, "not a valid etcd reply", false};
    return call_failure(nonsense, server);
  }
  results.push_back(std::move(*result));
  return std::nullopt;
}

asio::awaitable<std::optional<CallFailure>> ask_member(
    Cluster& cluster, const std::vector<Request>& requests, std::vector<Result>& results,
    net::Budget& budget) {
  std::vector<CallStart> calls;
  for (const auto& request : requests) {
    auto& call = calls.emplace_back(
        cluster.start_of(path_of(request), encoded(request), needs_leader(request)));
    call.timeout = left_until(budget.until());
  }
  auto& member = cluster.member();
  const auto replies = co_await member.exchange(calls, budget);
  results.clear();
  std::optional<CallFailure> failed_call;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto one = take_reply(requests[i], replies[i], member.shown(), results);
    // A lock in one cluster says nothing about the other, and what this one answers would
    // be taken for a loss.
    if (!one && !cluster.is_same(cluster_in(replies[i].message))) {
      const Outcome foreign{Code::unavailable,
                            "it is in another cluster than the server that replied "
                            "before: name members of one cluster",
                            false};
      one = call_failure(foreign, member.shown());
    }
    // One call that was not begun does not mean that the others were not.
    if (one && requests.size() > 1) one->may_be_executed = true;
    if (one && !failed_call) failed_call = std::move(one);
  }
  co_return failed_call;
}

}  // namespace

Calls::Calls(asio::io_context& context, Access access, milliseconds timeout)
    : cluster_(std::make_unique<Cluster>(context, std::move(access), timeout)) {}

Calls::~Calls() = default;

asio::io_context& Calls::context() const { return cluster_->context(); }
const Access& Calls::access() const { return cluster_->access(); }
milliseconds Calls::timeout() const { return cluster_->timeout(); }
Clock::time_point Calls::budget_end() const { return later(Clock::now(), timeout()); }
const std::string& Calls::name() const { return cluster_->member().shown(); }

asio::awaitable<std::vector<Result>> Calls::together(std::vector<Request> requests,
                                                     Repeat repeat,
                                                     Clock::time_point until,
                                                     Wakeup& wakeup) {
  std::vector<Result> results;
  auto& cluster = *cluster_;
  Cluster::Try once = [&](net::Budget& budget) {
    return ask_member(cluster, requests, results, budget);
  };
  co_await cluster.retry_on_members(std::move(once), repeat, until, wakeup);
  co_return results;
}

namespace {

// One request and its result.
template <typename Answer, typename Question>
asio::awaitable<Answer> only(Calls& calls, Question question, Repeat repeat,
                             Clock::time_point until, Wakeup& wakeup) {
  std::vector<Request> requests;
  requests.emplace_back(std::move(question));
  auto results = co_await calls.together(std::move(requests), repeat, until, wakeup);
  co_return std::get<Answer>(std::move(results.front()));
}

}  // namespace

asio::awaitable<RangeResult> Calls::range(RangeRequest request, Clock::time_point until,
                                          Wakeup& wakeup) {
  return only<RangeResult>(*this, std::move(request), Repeat::freely, until, wakeup);
}

asio::awaitable<LeaseGrantResult> Calls::lease_grant(LeaseGrantRequest request,
                                                     Clock::time_point until,
                                                     Wakeup& wakeup) {
  return only<LeaseGrantResult>(*this, request, Repeat::freely, until, wakeup);
}

asio::awaitable<LeaseRevokeResult> Calls::lease_revoke(LeaseRevokeRequest request,
                                                       Clock::time_point until,
                                                       Wakeup& wakeup) {
  return only<LeaseRevokeResult>(*this, request, Repeat::freely, until, wakeup);
}

asio::awaitable<LeaseKeepAliveResult> Calls::lease_keep_alive(
    LeaseKeepAliveRequest request, Clock::time_point until, Wakeup& wakeup) {
  return only<LeaseKeepAliveResult>(*this, request, Repeat::freely, until, wakeup);
}

asio::awaitable<TxnResult> Calls::txn(TxnRequest request, Repeat repeat,
                                      Clock::time_point until, Wakeup& wakeup) {
  return only<TxnResult>(*this, std::move(request), repeat, until, wakeup);
}

}  // namespace dlock::etcd
