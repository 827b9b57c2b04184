// A request that needs the replies of a majority of servers.
#pragma once

#include <vector>

#include "store/redis_quorum/complaints.hpp"
#include "store/redis_quorum/majority.hpp"
#include "store/redis_quorum/member.hpp"
#include "store/redis_quorum/tally.hpp"
#include "store/round.hpp"

namespace dlock::redis_quorum {

// The replies that arrive within `timeout`, in the order of the members; it does not wait
// for servers that are much slower than the majority. Throws Failure if too few reply, or
// two of them are the same server. `complaints` about those that do not are noted.
template <typename T>
asio::awaitable<std::vector<T>> ask_majority(const Members& members,
                                             typename Round<T>::Ask ask,
                                             milliseconds timeout, Complaints& complaints,
                                             Wakeup& wakeup) {
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
  std::vector<std::string> run_ids;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto& answer = round.answers()[i];
    if (!answer) continue;
    if (const auto* failure = std::get_if<Failure>(&*answer)) {
      failures.push_back(*failure);
    } else {
      said.push_back(std::get<T>(*answer));
      run_ids.push_back(members[i]->run_id());
    }
  }
  if (const auto twins = same_server_in(std::move(run_ids))) throw *twins;
  if (said.size() < needed(members.size())) {
    throw too_few(said.size(), members.size(), failures);
  }
  for (const auto& failure : failures) {
    if (is_for_administrators(failure)) complaints.note(failure.what());
  }
  co_return said;
}

}  // namespace dlock::redis_quorum
