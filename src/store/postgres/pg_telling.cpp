#include "store/postgres/pg_telling.hpp"

#include <utility>

#include "net/budget.hpp"
#include "store/postgres/pg_news.hpp"
#include "store/postgres/pg_transaction.hpp"

namespace dlock::postgres {

std::optional<Untold> PgTelling::take(const std::string& name_space) {
  const bool is_of_it = untold_ && untold_->lock.name_space == name_space;
  return is_of_it ? std::exchange(untold_, std::nullopt) : std::nullopt;
}

asio::awaitable<void> PgTelling::tell(std::shared_ptr<PgPrimary> connection, Call call) {
  if (!untold_) co_return;
  const auto untold = *std::exchange(untold_, std::nullopt);
  if (!connection->is_open()) co_return;
  const auto& schema = connection->target().schema;
  std::vector<Batch> question(
      1, Batch(1, watcher_question(schema, untold.lock.name_space, untold.at)));
  const auto reply = co_await connection->exchange(std::move(question), call);
  if (says_yes(reply.back())) {
    connection->post({telling(untold.lock, untold.events, *connection)});
  }
}

Batch telling(const LockName& lock, const std::vector<Event>& events,
              const PgPrimary& connection) {
  auto batch = to_tell(connection.target().schema, lock, events);
  batch.insert(batch.begin(), unimportantly(later(Clock::now(), bookkeeping_patience)));
  return writable(std::move(batch), connection);
}

}  // namespace dlock::postgres
