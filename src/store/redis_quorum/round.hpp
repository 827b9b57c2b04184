// One request to several servers at once.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "store/redis_quorum/member.hpp"
#include "store/redis_quorum/votes.hpp"

namespace dlock::redis_quorum {

// For Round::wait(): waits for all replies.
constexpr auto until_all_answer = [](const auto&) { return false; };

// The constructor sends the requests. After the destructor, requests without a reply
// continue, but their replies are ignored.
template <typename T>
class Round {
 public:
  using Answers = std::vector<MaybeReply<T>>;  // in the order of the members
  // Asks the member with that index. It must own everything it uses, because it may
  // outlive the Round.
  using Ask = std::function<asio::awaitable<T>(std::size_t, Wakeup&)>;

  Round(const Members& members, Ask ask) : state_(std::make_shared<State>()) {
    state_->answers.resize(members.size());
    state_->ask = std::move(ask);
    for (std::size_t i = 0; i < members.size(); ++i) put_to(*members[i], i);
  }

  // Asks only some members: `answers` already contains the replies for the others.
  Round(const Members& members, Answers answers, Ask ask)
      : state_(std::make_shared<State>()) {
    state_->answers = std::move(answers);
    state_->ask = std::move(ask);
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (!state_->answers[i]) put_to(*members[i], i);
    }
  }
  ~Round() { state_->awaited_by = nullptr; }
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  const Answers& answers() const { return state_->answers; }

  bool is_over() const {
    for (const auto& answer : state_->answers) {
      if (!answer) return false;
    }
    return true;
  }

  // Waits until all have replied, `is_enough(answers)`, or `until`. Throws Failure
  // (interrupted).
  asio::awaitable<void> wait(std::function<bool(const Answers&)> is_enough,
                             Clock::time_point until, Wakeup& wakeup) {
    const auto state = state_;
    state->awaited_by = &wakeup;
    while (!is_over() && !is_enough(state->answers) && Clock::now() < until) {
      if (wakeup.gives_up()) break;
      co_await wakeup.wait_until(until);
    }
    state->awaited_by = nullptr;
    if (wakeup.gives_up() && !is_over()) {
      throw Failure(Failure::Kind::interrupted, "servers: interrupted");
    }
  }

  // The same, and then waits for servers that are slightly slower: as long again as the
  // first wait took, within bounds.
  asio::awaitable<void> wait_for_most(std::function<bool(const Answers&)> is_enough,
                                      Clock::time_point until, Wakeup& wakeup) {
    co_await wait(std::move(is_enough), until, wakeup);
    const auto took = std::chrono::ceil<milliseconds>(Clock::now() - began_);
    const auto grace = std::max(took, least_grace);
    co_await wait(until_all_answer, std::min(until, later(Clock::now(), grace)), wakeup);
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

  void put_to(Member& member, std::size_t number) {
    member.perform([state = state_, number](Wakeup& wakeup) {
      return answer(state, number, wakeup);
    });
  }

  static asio::awaitable<void> answer(std::shared_ptr<State> state, std::size_t number,
                                      Wakeup& wakeup) {
    MaybeReply<T> said;
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

}  // namespace dlock::redis_quorum
