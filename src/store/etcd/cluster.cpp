#include "store/etcd/cluster.hpp"

#include <algorithm>
#include <utility>

#include "lock/retry.hpp"
#include "store/etcd/messages.hpp"

namespace dlock::etcd {
namespace {

// Less would not do for a connection with TLS and a login, and the next address of a
// member is not tried before.
constexpr milliseconds least_share{300};

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

asio::awaitable<void> Cluster::persist(Try once, Repeat repeat, Clock::time_point until,
                                       Wakeup& wakeup) {
  const auto count = members_.size();
  bool has_logged_in_anew = false;
  for (std::size_t tries = 0;;) {
    const auto share = share_of(Clock::now(), until, count - tries % count);
    const auto answered_by = repeat == Repeat::freely ? share : until;
    const auto trouble = co_await attempt(once, share, answered_by, wakeup);
    if (!trouble) co_return;
    if (trouble->may_be_executed && repeat == Repeat::never) throw trouble->failure;
    if (trouble->cure == Trouble::Cure::none || Clock::now() >= until) {
      throw trouble->failure;
    }
    if (trouble->cure == Trouble::Cure::login) {
      if (access_.user.empty() || has_logged_in_anew) throw trouble->failure;
      has_logged_in_anew = true;
      logs_in_ = true;
      token_.clear();
      continue;
    }
    move_on();
    if (++tries % count != 0) continue;
    // What is left after the pause has to be enough to be answered in.
    if (later(Clock::now(), first_retry) >= until) throw trouble->failure;
    net::Budget pause(until, wakeup, member().shown());
    const auto never = [] { return false; };
    co_await pause.wait(never, later(Clock::now(), first_retry));
    pause.hand_on();
  }
}

// Failures are troubles here; whoever waits knows of what was meant for others.
asio::awaitable<std::optional<Trouble>> Cluster::attempt(const Try& once,
                                                         Clock::time_point reached_by,
                                                         Clock::time_point until,
                                                         Wakeup& wakeup) {
  net::Budget to_reach(reached_by, wakeup, member().shown());
  net::Budget to_answer(until, wakeup, member().shown());
  std::optional<Trouble> trouble;
  bool was_sent = false;
  try {
    to_reach.check();
    trouble = co_await reach(to_reach);
    if (!trouble) {
      was_sent = true;
      trouble = co_await once(to_answer);
    }
  } catch (const Failure& failure) {
    trouble = trouble_of(failure, was_sent);
  }
  to_reach.hand_on();
  to_answer.hand_on();
  co_return trouble;
}

asio::awaitable<std::optional<Trouble>> Cluster::reach(net::Budget& budget) {
  auto& connection = member();
  connection.drop_if_closed();
  if (!connection.is_open()) co_await connection.open(budget);
  if (!logs_in_ || !token_.empty()) co_return std::nullopt;
  co_return co_await log_in(budget);
}

asio::awaitable<std::optional<Trouble>> Cluster::log_in(net::Budget& budget) {
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
    co_return trouble_of_login(reply.outcome, member().shown());
  }
  if (!result) result = decoded(request, reply.message);
  if (!result) {
    const Outcome nonsense{Code::internal, "not a valid etcd reply", false};
    co_return trouble_of_login(nonsense, member().shown());
  }
  token_ = std::get<AuthenticateResult>(*result).token;
  // As for etcd's own client: users are given to all before they are wanted.
  logs_in_ = !token_.empty();
  co_return std::nullopt;
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
