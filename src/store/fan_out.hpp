// One request to several servers at once.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "loop/wakeup.hpp"
#include "util/failure.hpp"

namespace dlock {

// For FanOut::wait(): waits for all replies.
constexpr auto until_all_answer = [](const auto&) { return false; };

// The constructor sends the requests: perform_at(servers, number, work), which is
// declared beside the type of `servers`, begins each. After the destructor, requests
// without a reply continue, but their replies are ignored.
template <typename T>
class FanOut {
 public:
  using MaybeReply = std::optional<std::variant<T, Failure>>;  // nothing: no reply
  using Answers = std::vector<MaybeReply>;  // in the order of the servers
  // Asks the server with that index. It must own everything it uses, because it may
  // outlive the FanOut.
  using Ask = std::function<asio::awaitable<T>(std::size_t, Wakeup&)>;

  template <typename Servers>
  FanOut(const Servers& servers, Ask ask)
      : FanOut(servers, Answers(servers.size()), std::move(ask)) {}

  // Asks only some servers: `answers` already contains the replies for the others.
  template <typename Servers>
  FanOut(const Servers& servers, Answers answers, Ask ask)
      : state_(std::make_shared<State>()) {
    state_->answers = std::move(answers);
    state_->ask = std::move(ask);
    for (std::size_t i = 0; i < servers.size(); ++i) {
      if (state_->answers[i]) continue;
      perform_at(servers, i, [state = state_, i](Wakeup& wakeup) {
        return answer(state, i, wakeup);
      });
    }
  }
  ~FanOut() { state_->awaited_by = nullptr; }
  FanOut(const FanOut&) = delete;
  FanOut& operator=(const FanOut&) = delete;

  const Answers& answers() const { return state_->answers; }

  bool is_over() const {
    for (const auto& answer : state_->answers) {
      if (!answer) return false;
    }
    return true;
  }

  // Waits until all have replied, `is_enough(answers)`, or `until`. Throws Failure
  // (interrupted).
  asio::awaitable<void> wait(std::function<bool(const Answers&)> is_enough, Call call) {
    const auto state = state_;
    state->awaited_by = &call.wakeup;
    while (!is_over() && !is_enough(state->answers) && !call.is_over()) {
      if (call.wakeup.gives_up()) break;
      co_await call.wait();
    }
    state->awaited_by = nullptr;
    if (call.wakeup.gives_up() && !is_over()) {
      throw Failure::interrupted("servers: interrupted");
    }
  }

  // The same, and then waits for servers that are slightly slower: as long again as the
  // first wait took, within bounds.
  asio::awaitable<void> wait_for_most(std::function<bool(const Answers&)> is_enough,
                                      Call call) {
    co_await wait(std::move(is_enough), call);
    const auto took = std::chrono::ceil<milliseconds>(Clock::now() - began_);
    const auto grace = std::max(took, least_grace);
    co_await wait(until_all_answer, call.within(grace));
  }

  Clock::time_point began() const { return began_; }

 private:
  // What a failed server costs in each round. A busy machine is slow more often than a
  // server fails, so it is not shorter.
  static constexpr milliseconds least_grace{20};

  struct State {
    Answers answers;
    Ask ask;
    Wakeup* awaited_by = nullptr;
  };

  static asio::awaitable<void> answer(std::shared_ptr<State> state, std::size_t number,
                                      Wakeup& wakeup) {
    MaybeReply said;
    try {
      said = co_await state->ask(number, wakeup);
    } catch (const Failure& failure) {
      said = failure;
    }
    state->answers[number] = std::move(said);
    if (state->awaited_by != nullptr) state->awaited_by->notify();
  }

  Clock::time_point began_ = Clock::now();
  std::shared_ptr<State> state_;  // shared with the requests
};

// The servers of ask_all(): each request has its own connections and wake-up.
struct Strangers {
  using Work = std::function<asio::awaitable<void>(Wakeup&)>;

  asio::io_context& context;
  std::size_t count;
  std::size_t size() const { return count; }
};

inline asio::awaitable<void> with_own_wakeup(asio::io_context& context,
                                             Strangers::Work work) {
  Wakeup wakeup(context);
  co_await work(wakeup);
}

inline void perform_at(const Strangers& servers, std::size_t, Strangers::Work work) {
  asio::co_spawn(servers.context, with_own_wakeup(servers.context, std::move(work)),
                 [](std::exception_ptr error) {
                   if (error) std::rethrow_exception(error);
                 });
}

// Asks `count` servers at once, and waits for each. Returns their replies in order;
// throws the first Failure among them, or Failure (interrupted) if `wakeup` gives up.
template <typename T>
asio::awaitable<std::vector<T>> ask_all(asio::io_context& context, std::size_t count,
                                        typename FanOut<T>::Ask ask, Wakeup& wakeup) {
  FanOut<T> round(Strangers{context, count}, std::move(ask));
  co_await round.wait(until_all_answer, {Clock::time_point::max(), wakeup});
  std::vector<T> replies;
  for (const auto& reply : round.answers()) {
    if (const auto* failure = std::get_if<Failure>(&*reply)) throw Failure(*failure);
    replies.push_back(std::get<T>(*reply));
  }
  co_return replies;
}

}  // namespace dlock
