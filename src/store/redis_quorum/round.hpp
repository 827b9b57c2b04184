// One question to several servers at once.
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

// For Round::wait(): fewer are never enough.
constexpr auto until_all_answer = [](const auto&) { return false; };

// It is under way from when this is made. Those that have not answered when this goes are
// not given up, and nobody hears what they say then.
template <typename T>
class Round {
 public:
  using Answers = std::vector<Said<T>>;  // in the order of the members
  // Asks the member of that number. What it uses has to be its own: it may go on when
  // whoever has asked is gone.
  using Ask = std::function<asio::awaitable<T>(std::size_t, Wakeup&)>;

  Round(const Members& members, Ask ask) : state_(std::make_shared<State>()) {
    state_->answers.resize(members.size());
    state_->ask = std::move(ask);
    for (std::size_t i = 0; i < members.size(); ++i) put_to(*members[i], i);
  }

  // The same to some: what is to be taken for the answer of each of the others is in
  // `answers` already.
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

  // Waits until all have answered, `is_enough`, or `until`. Throws Failure (interrupted).
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

  // The same, and then for those that are a little slower than the others: as long again
  // as it took, within bounds.
  asio::awaitable<void> wait_for_most(std::function<bool(const Answers&)> is_enough,
                                      Clock::time_point until, Wakeup& wakeup) {
    co_await wait(std::move(is_enough), until, wakeup);
    const auto took = std::chrono::ceil<milliseconds>(Clock::now() - began_);
    const auto grace = std::max(took, least_grace);
    co_await wait(until_all_answer, std::min(until, later(Clock::now(), grace)), wakeup);
  }

  Clock::time_point began() const { return began_; }

 private:
  // A server that is not well costs this, and more often than that a busy machine is
  // slow.
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
    Said<T> said;
    try {
      said = co_await state->ask(number, wakeup);
    } catch (const Failure& failure) {
      said = failure;
    }
    state->answers[number] = std::move(said);
    if (state->awaited_by != nullptr) state->awaited_by->notify();
  }

  Clock::time_point began_ = Clock::now();
  std::shared_ptr<State> state_;  // which those that are asked have, too
};

}  // namespace dlock::redis_quorum
