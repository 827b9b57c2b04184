#include "store/redis_sentinel/discovery.hpp"

#include <boost/asio/co_spawn.hpp>
#include <deque>
#include <utility>

#include "store/redis/connection.hpp"
#include "store/redis/error_reply.hpp"
#include "store/redis/login.hpp"
#include "store/redis_sentinel/plan.hpp"

namespace dlock::redis_sentinel {

using redis::Command;

namespace {

Failure failure_of(const Reply& reply, const redis::Target& sentinel) {
  const auto name = sentinel.shown();
  const bool is_server = reply.text.find("unknown command") != std::string::npos;
  if (!reply.is_error() || is_server) {
    return Failure(Failure::Kind::misconfigured,
                   name + " is not a sentinel: for a single server, use " +
                       (sentinel.tls ? "rediss" : "redis") + "://" + name);
  }
  if (reply.error_code() == "NOAUTH") {
    return redis::password_required(name, sentinel.password_options);
  }
  return redis::failure_from(reply, name);
}

}  // namespace

struct Discovery::State {
  struct Sentinel {
    Sentinel(asio::io_context& context, const redis::Target& at)
        : target(at), connection(context, at), wakeup(context) {}

    redis::Target target;
    redis::Connection connection;
    Wakeup wakeup;
  };

  std::deque<Sentinel> sentinels;
  AddressMap addresses;
  std::vector<Ballot> ballots;
  std::vector<Command> question;
  Clock::time_point until;
  Wakeup* awaited_by = nullptr;
};

Discovery::Discovery(asio::io_context& context, const Plan& plan, bool with_replicas,
                     Clock::time_point until)
    : state_(std::make_shared<State>()) {
  state_->until = until;
  state_->addresses = plan.addresses;
  state_->ballots.resize(plan.sentinels.size());
  state_->question.push_back({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", plan.master});
  if (with_replicas) state_->question.push_back({"SENTINEL", "REPLICAS", plan.master});
  state_->question.push_back({"SENTINEL", "MYID"});
  for (const auto& target : plan.sentinels)
    state_->sentinels.emplace_back(context, target);
  for (std::size_t i = 0; i < plan.sentinels.size(); ++i) {
    asio::co_spawn(context, ask(state_, i), [](const std::exception_ptr&) {});
  }
}

Discovery::~Discovery() {
  state_->awaited_by = nullptr;
  for (auto& sentinel : state_->sentinels) sentinel.wakeup.give_up(true);
}

const std::vector<Ballot>& Discovery::ballots() const { return state_->ballots; }

asio::awaitable<void> Discovery::ask(std::shared_ptr<State> state, std::size_t number) {
  auto& sentinel = state->sentinels[number];
  auto& ballot = state->ballots[number];
  try {
    auto replies = co_await sentinel.connection.exchange(state->question, state->until,
                                                         sentinel.wakeup);
    ballot.id = id_from(replies.back());
    replies.pop_back();
    const auto vote = vote_from(replies);
    if (const auto* valid = std::get_if<Vote>(&vote)) {
      ballot.vote = translated(*valid, state->addresses);
    } else {
      ballot.failure = failure_of(std::get<Reply>(vote), sentinel.target);
    }
  } catch (const Failure& failure) {
    ballot.failure = failure;
  }
  sentinel.connection.close();
  if (state->awaited_by != nullptr) state->awaited_by->notify();
}

asio::awaitable<void> Discovery::wait(
    std::function<bool(const std::vector<Ballot>&)> is_certain, Clock::time_point until,
    Wakeup& wakeup) {
  const auto state = state_;
  const auto is_answered = [&] {
    for (const auto& ballot : state->ballots) {
      if (ballot.is_open()) return false;
    }
    return true;
  };
  state->awaited_by = &wakeup;
  while (!is_answered() && !is_certain(state->ballots) && Clock::now() < until) {
    if (wakeup.gives_up()) break;
    co_await wakeup.wait_until(until);
  }
  state->awaited_by = nullptr;
  if (wakeup.gives_up())
    throw Failure(Failure::Kind::interrupted, "sentinels: interrupted");
}

}  // namespace dlock::redis_sentinel
