#include "store/redis/lookout.hpp"

#include <boost/asio/co_spawn.hpp>
#include <set>
#include <utility>

namespace dlock::redis {

struct Lookout::State {
  State(asio::io_context& context, Route& of, LockName name, const Node& replaced,
        std::function<void(const Address&)> told)
      : route(of),
        lock(std::move(name)),
        server(replaced),
        found(std::move(told)),
        wakeup(context) {}

  bool stops() const { return wakeup.gives_up(); }

  // Not used after it has stopped, because they may be gone by then.
  Route& route;
  LockName lock;
  const Node& server;
  std::function<void(const Address&)> found;

  std::set<Address> reported;
  Wakeup wakeup;
};

Lookout::Lookout(asio::io_context& context, Route& route, const LockName& lock,
                 const Node& server, Clock::time_point begin,
                 std::function<void(const Address&)> found)
    : state_(std::make_shared<State>(context, route, lock, server, std::move(found))) {
  const auto first = [state = state_, begin]() -> asio::awaitable<void> {
    co_await sleep(*state, begin);
    co_await watch(state);
  };
  asio::co_spawn(context, first, [](const std::exception_ptr&) {});
}

Lookout::~Lookout() { state_->wakeup.give_up(true); }

asio::awaitable<void> Lookout::watch(std::shared_ptr<State> state) {
  state->reported.insert(address_of(state->server.target()));
  const auto interval = lookout_interval(state->route.timeout());
  while (!state->stops()) {
    const auto until = state->route.budget_end();
    std::optional<Address> named;
    try {
      named = co_await state->route.owner_by_others(state->lock, state->server, until,
                                                    state->wakeup);
    } catch (const Failure&) {
      // Others are asked in the next round.
    }
    if (state->stops()) break;
    if (named && state->reported.insert(*named).second) state->found(*named);
    co_await sleep(*state, later(Clock::now(), interval));
  }
}

asio::awaitable<void> Lookout::sleep(State& state, Clock::time_point until) {
  while (!state.stops() && Clock::now() < until) co_await state.wakeup.wait_until(until);
}

}  // namespace dlock::redis
