#include "store/etcd/etcd_calls.hpp"

#include <algorithm>
#include <utility>

#include "store/etcd/etcd_cluster.hpp"

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
std::optional<CallFailure> take_reply(const Request& request, const CallReply& reply,
                                      const std::string& server,
                                      std::vector<Result>& results) {
  auto result = answer_in(request, reply.outcome);
  if (!result && reply.outcome.code != grpc::Code::ok) {
    return call_failure(reply.outcome, server);
  }
  if (!result) result = decoded(request, reply.message);
  if (!result) {
    const grpc::CallOutcome nonsense{grpc::Code::internal, "not a valid etcd reply"};
    return call_failure(nonsense, server);
  }
  results.push_back(std::move(*result));
  return std::nullopt;
}

// A member fills in the term when it replies. If the leader that has written the request
// was stopped before the member knew of the write, that is the term of the next leader.
// But it is the term of the request if the member was also in it before.
void settle_terms(std::vector<Result>& results, std::uint64_t term_before) {
  for (auto& result : results) {
    auto* granted = std::get_if<LeaseGrantResult>(&result);
    if (granted != nullptr && granted->term != term_before) granted->term = 0;
  }
}

asio::awaitable<std::optional<CallFailure>> ask_member(
    EtcdCluster& cluster, const std::vector<Request>& requests,
    std::vector<Result>& results, net::Budget& budget) {
  std::vector<grpc::CallStart> calls;
  for (const auto& request : requests) {
    auto& call = calls.emplace_back(
        cluster.start_of(path_of(request), encoded(request), needs_leader(request)));
    call.timeout = left_until(budget.until());
  }
  auto& member = cluster.member();
  const auto term_before = cluster.known_term();
  const auto replies = co_await member.exchange(calls, budget);
  results.clear();
  std::optional<CallFailure> failed_call;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto one = take_reply(requests[i], replies[i], member.shown(), results);
    // A lock in one cluster says nothing about the other, and what this one answers would
    // be taken for a loss.
    if (!one && !cluster.is_same(cluster_in(replies[i].message))) {
      const grpc::CallOutcome foreign{
          grpc::Code::unavailable,
          "it is in another cluster than the server that replied "
          "before: name members of one cluster"};
      one = call_failure(foreign, member.shown());
    }
    if (one && !failed_call) failed_call = std::move(one);
    if (const auto term = term_in(replies[i].message)) cluster.note_term(term);
  }
  settle_terms(results, term_before);
  co_return failed_call;
}

}  // namespace

EtcdCalls::EtcdCalls(asio::io_context& context, EtcdAccess access, milliseconds timeout)
    : cluster_(std::make_unique<EtcdCluster>(context, std::move(access), timeout)) {}

EtcdCalls::~EtcdCalls() = default;

asio::io_context& EtcdCalls::context() const { return cluster_->context(); }
const EtcdAccess& EtcdCalls::access() const { return cluster_->access(); }
milliseconds EtcdCalls::timeout() const { return cluster_->timeout(); }
bool EtcdCalls::knows_term() const { return cluster_->known_term() != 0; }
const std::string& EtcdCalls::name() const { return cluster_->member().shown(); }

asio::awaitable<std::vector<Result>> EtcdCalls::together(std::vector<Request> requests,
                                                         Call call) {
  std::vector<Result> results;
  auto& cluster = *cluster_;
  EtcdCluster::Try once = [&](net::Budget& budget) {
    return ask_member(cluster, requests, results, budget);
  };
  co_await cluster.retry_on_members(std::move(once), call);
  co_return results;
}

namespace {

// One request and its result.
template <typename Answer, typename Question>
asio::awaitable<Answer> only(EtcdCalls& calls, Question question, Call call) {
  std::vector<Request> requests;
  requests.emplace_back(std::move(question));
  auto results = co_await calls.together(std::move(requests), call);
  co_return std::get<Answer>(std::move(results.front()));
}

}  // namespace

asio::awaitable<RangeResult> EtcdCalls::range(RangeRequest request, Call call) {
  return only<RangeResult>(*this, std::move(request), call);
}

asio::awaitable<LeaseGrantResult> EtcdCalls::lease_grant(LeaseGrantRequest request,
                                                         Call call) {
  return only<LeaseGrantResult>(*this, request, call);
}

asio::awaitable<LeaseRevokeResult> EtcdCalls::lease_revoke(LeaseRevokeRequest request,
                                                           Call call) {
  return only<LeaseRevokeResult>(*this, request, call);
}

asio::awaitable<LeaseKeepAliveResult> EtcdCalls::lease_keep_alive(
    LeaseKeepAliveRequest request, Call call) {
  return only<LeaseKeepAliveResult>(*this, request, call);
}

asio::awaitable<TxnResult> EtcdCalls::txn(TxnRequest request, Call call) {
  return only<TxnResult>(*this, std::move(request), call);
}

namespace {

constexpr std::string_view watch_path = "/etcdserverpb.Watch/Watch";

grpc::CallOutcome nonsense() {
  return {grpc::Code::internal, "not a valid etcd watch reply"};
}

// Why a watch was canceled before it was created. Versions before 3.5 report an expired
// login as missing permissions.
CallFailure refusal(const WatchAnswer& answer, const std::string& server) {
  const bool lacks_permission =
      answer.reason.find("permission denied") != std::string::npos;
  auto failed_call = call_failure(
      grpc::CallOutcome{
          lacks_permission ? grpc::Code::permission_denied : grpc::Code::unavailable,
          answer.reason.empty() ? "the watch was canceled" : answer.reason},
      server);
  if (lacks_permission) failed_call.remedy = CallFailure::Remedy::login;
  return failed_call;
}

}  // namespace

// The stream, bound to the connection on which it was begun.
class KeyWatch::Feed {
 public:
  explicit Feed(EtcdConnection& connection)
      : connection_(connection), opened_(connection.times_opened()) {}

  bool is_on_connection() const {
    return connection_.is_open() && connection_.times_opened() == opened_;
  }

  // Begins the stream; returns when the watch is created.
  asio::awaitable<std::optional<CallFailure>> begin(const EtcdCluster& cluster,
                                                    const WatchRequest& request,
                                                    net::Budget& budget) {
    auto start = cluster.start_of(watch_path, encoded(request), true);
    start.is_last = false;
    call_ = connection_.begin(start);
    for (bool is_created = false; !is_created;) {
      const auto bytes = co_await connection_.next_message(call_, budget);
      const auto ended = connection_.outcome(call_);
      if (!bytes && !ended) throw budget.timeout(connection_.shown());
      if (!bytes) co_return call_failure(*ended, connection_.shown());
      auto answer = decoded_watch(*bytes);
      if (!answer) co_return call_failure(nonsense(), connection_.shown());
      is_created = answer->created;
      if (answer->canceled && answer->compact_revision == 0) {
        co_return refusal(*answer, connection_.shown());
      }
      take(*answer);
      if (update_.events.size() > most_elements) {
        co_return call_failure(nonsense(), connection_.shown());
      }
    }
    co_return std::nullopt;
  }

  asio::awaitable<WatchUpdate> next(net::Budget& budget) {
    while (is_on_connection() && !has_news()) {
      const auto bytes = co_await connection_.next_message(call_, budget);
      if (!bytes && !connection_.outcome(call_)) co_return WatchUpdate{};
      const auto answer = bytes ? decoded_watch(*bytes) : std::nullopt;
      if (!answer) break;
      take(*answer);
      if (answer->canceled && answer->compact_revision == 0) break;
    }
    if (has_news()) co_return std::exchange(update_, {});
    drop();
    WatchUpdate deaf;
    deaf.kind = WatchUpdate::Kind::broken;
    co_return deaf;
  }

  bool is_broken() const {
    return !has_news() &&
           (is_dropped_ || !is_on_connection() || connection_.outcome(call_).has_value());
  }

  // The member is notified with the next output.
  void drop() {
    if (is_on_connection()) connection_.drop(call_);
    is_dropped_ = true;
  }

 private:
  bool has_news() const { return update_.kind != WatchUpdate::Kind::nothing; }

  void take(const WatchAnswer& answer) {
    if (answer.compact_revision != 0) {
      update_ = {WatchUpdate::Kind::compacted, {}, answer.compact_revision};
      return;
    }
    if (answer.events.empty() || update_.kind == WatchUpdate::Kind::compacted) return;
    update_.kind = WatchUpdate::Kind::events;
    update_.events.insert(update_.events.end(), answer.events.begin(),
                          answer.events.end());
    update_.revision = std::max(update_.revision, answer.revision);
  }

  EtcdConnection& connection_;
  std::uint64_t opened_;
  grpc::CallId call_ = 0;
  WatchUpdate update_;
  bool is_dropped_ = false;
};

KeyWatch::KeyWatch(EtcdCalls& calls) : calls_(calls) {}

KeyWatch::~KeyWatch() {
  if (feed_) feed_->drop();
}

asio::awaitable<void> KeyWatch::start(WatchRequest request, Call call) {
  auto& cluster = *calls_.cluster_;
  EtcdCluster::Try once = [&](net::Budget& budget) {
    if (feed_) feed_->drop();
    feed_ = std::make_unique<Feed>(cluster.member());
    return feed_->begin(cluster, request, budget);
  };
  try {
    co_await cluster.retry_on_members(std::move(once), call);
  } catch (const Failure&) {
    if (feed_) feed_->drop();
    throw;
  }
}

asio::awaitable<WatchUpdate> KeyWatch::next(Call call) {
  WatchUpdate update;
  update.kind = WatchUpdate::Kind::broken;
  if (!feed_ || feed_->is_broken()) co_return update;
  net::Budget budget(call, calls_.name());
  std::optional<Failure> failure;
  try {
    update = co_await feed_->next(budget);
  } catch (const Failure& error) {
    failure = error;
  }
  budget.hand_on();
  const bool is_lost = failure && failure->kind() == Failure::Kind::unreachable;
  if (failure && !is_lost) throw *failure;
  co_return update;
}

bool KeyWatch::is_broken() const { return !feed_ || feed_->is_broken(); }

}  // namespace dlock::etcd
