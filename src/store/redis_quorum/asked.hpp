// A question of which the answers of most servers are needed.
#pragma once

#include <vector>

#include "store/redis_quorum/majority.hpp"
#include "store/redis_quorum/round.hpp"
#include "store/redis_quorum/tally.hpp"

namespace dlock::redis_quorum {

// What those say that answer within `timeout`, in the order of the members; those that
// take much longer than most are not waited for. Throws Failure if too few answer.
template <typename T>
asio::awaitable<std::vector<T>> asked_of_most(const Members& members,
                                              typename Round<T>::Ask ask,
                                              milliseconds timeout, Wakeup& wakeup) {
  Round<T> round(members, std::move(ask));
  const auto is_enough = [](const typename Round<T>::Answers& answers) {
    std::size_t count = 0;
    for (const auto& said : answers) {
      if (said && std::holds_alternative<T>(*said)) ++count;
    }
    return count >= needed(answers.size());
  };
  co_await round.wait_for_most(is_enough, later(Clock::now(), timeout), wakeup);
  std::vector<T> said;
  std::vector<Failure> failures;
  for (const auto& answer : round.answers()) {
    if (!answer) continue;
    if (const auto* failure = std::get_if<Failure>(&*answer)) {
      if (failure->kind() == Failure::Kind::misconfigured) throw *failure;
      failures.push_back(*failure);
    } else {
      said.push_back(std::get<T>(*answer));
    }
  }
  if (said.size() < needed(members.size())) {
    throw too_few(said.size(), members.size(), failures);
  }
  co_return said;
}

}  // namespace dlock::redis_quorum
