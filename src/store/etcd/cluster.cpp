#include "store/etcd/cluster.hpp"

#include <algorithm>
#include <utility>

#include "loop/retry.hpp"
#include "store/etcd/messages.hpp"

namespace dlock::etcd {
namespace {

// A shorter time would not be enough for a connection with TLS and a login; the next
// address of a member is not tried before it is over.
constexpr milliseconds least_share{300};

// After this time without a reply, a cluster may have been set up again from a backup,
// and a waiter must not refuse the new one forever.
constexpr milliseconds replaced_after{60'000};

}  // namespace

Clock::time_point share_of(Clock::time_point now, Clock::time_point until,
                           std::size_t left) {
  const auto span = std::max(until - now, Clock::duration::zero());
  const auto share = span / static_cast<Clock::duration::rep>(left);
  return std::min(until, now + std::max<Clock::duration>(share, least_share));
}

Cluster::Cluster(asio::io_context& context, Access access, milliseconds timeout)
    : context_(context),
      access_(std::move(access)),
      timeout_(timeout),
      logs_in_(!access_.user.empty()) {
  for (const auto& server : access_.members) {
    members_.emplace_back(context_, server, access_.tls);
  }
}

asio::awaitable<void> Cluster::retry_on_members(Try once, Repeat repeat,
                                                Clock::time_point until, Wakeup& wakeup) {
  const auto count = members_.size();
  bool has_logged_in_anew = false;
  std::optional<Failure> reason;
  for (std::size_t tries = 0;;) {
    const auto began = Clock::now();
    const auto share = share_of(began, until, count - tries % count);
    const auto answered_by = repeat == Repeat::freely ? share : until;
    const auto failed_call = co_await attempt(once, share, answered_by, wakeup);
    if (!failed_call) co_return;
    if (failed_call->may_be_executed && repeat == Repeat::never)
      throw failed_call->failure;
    if (failed_call->remedy == CallFailure::Remedy::none) throw failed_call->failure;
    // That a short rest of the time ran out does not say why the attempts before failed.
    const bool is_over = Clock::now() >= until;
    if (!reason || !is_over || until - began >= least_share)
      reason = failed_call->failure;
    if (is_over) throw Failure(*reason);
    if (failed_call->remedy == CallFailure::Remedy::login) {
      if (access_.user.empty() || has_logged_in_anew) throw failed_call->failure;
      has_logged_in_anew = true;
      logs_in_ = true;
      token_.clear();
      continue;
    }
    move_on();
    if (++tries % count != 0) continue;
    const auto next_attempt = later(Clock::now(), first_retry);
    if (next_attempt >= until) throw Failure(*reason);
    net::Budget pause(until, wakeup, member().shown());
    const auto never = [] { return false; };
    co_await pause.wait(never, next_attempt);
    pause.hand_on();
  }
}

// Turns exceptions into CallFailure, so that the caller can decide whether to retry.
asio::awaitable<std::optional<CallFailure>> Cluster::attempt(const Try& once,
                                                             Clock::time_point reached_by,
                                                             Clock::time_point until,
                                                             Wakeup& wakeup) {
  net::Budget to_reach(reached_by, wakeup, member().shown());
  net::Budget to_answer(until, wakeup, member().shown());
  std::optional<CallFailure> failed_call;
  bool was_sent = false;
  try {
    to_reach.check();
    failed_call = co_await reach(to_reach);
    if (!failed_call) {
      was_sent = true;
      failed_call = co_await once(to_answer);
    }
  } catch (const Failure& failure) {
    failed_call = call_failure(failure, was_sent);
  }
  to_reach.hand_on();
  to_answer.hand_on();
  co_return failed_call;
}

asio::awaitable<std::optional<CallFailure>> Cluster::reach(net::Budget& budget) {
  auto& connection = member();
  connection.drop_if_closed();
  if (!connection.is_open()) co_await connection.open(budget);
  if (!logs_in_ || !token_.empty()) co_return std::nullopt;
  co_return co_await log_in(budget);
}

asio::awaitable<std::optional<CallFailure>> Cluster::log_in(net::Budget& budget) {
  AuthenticateRequest login;
  login.user = access_.user;
  login.password = password_of(access_);
  const Request request = std::move(login);
  std::vector<CallStart> calls;
  calls.push_back(start_of(path_of(request), encoded(request), true));
  const auto replies = co_await member().exchange(calls, budget);
  const auto& reply = replies.front();
  auto result = answer_in(request, reply.outcome);
  if (!result && reply.outcome.code != Code::ok) {
    co_return login_failure(reply.outcome, member().shown());
  }
  if (!result) result = decoded(request, reply.message);
  if (!result) {
    const Outcome nonsense{Code::internal, "not a valid etcd reply", false};
    co_return login_failure(nonsense, member().shown());
  }
  token_ = std::get<AuthenticateResult>(*result).token;
  // Like etcd's own client: a user may be set before authentication is enabled.
  logs_in_ = !token_.empty();
  co_return std::nullopt;
}

bool Cluster::is_same(std::uint64_t cluster) {
  if (cluster == 0) return true;
  const auto now = Clock::now();
  if (cluster != id_ && id_ != 0 && now - seen_ < replaced_after) return false;
  id_ = cluster;
  seen_ = now;
  return true;
}

CallStart Cluster::start_of(std::string_view path, std::string message,
                            bool needs_leader) const {
  CallStart start;
  start.path = path;
  start.message = std::move(message);
  if (needs_leader) start.metadata.push_back({"hasleader", "true"});
  if (!token_.empty()) start.metadata.push_back({"token", token_});
  return start;
}

void Cluster::move_on() {
  member().close();
  current_ = (current_ + 1) % members_.size();
}

}  // namespace dlock::etcd
