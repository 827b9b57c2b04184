#include "store/postgres/pg_session.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>

#include "net/budget.hpp"
#include "store/postgres/pg_errors.hpp"
#include "store/postgres/pg_news.hpp"
#include "store/postgres/pg_schema.hpp"
#include "store/postgres/pg_transaction.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

// For a request to end what the server is doing.
constexpr milliseconds cancel_patience{2000};

asio::awaitable<void> cancel(asio::io_context& context,
                             std::shared_ptr<PgPrimary> connection) {
  Wakeup wakeup(context);
  try {
    co_await connection->cancel(wakeup.within(cancel_patience));
  } catch (const Failure&) {
    // It ends with its own timeout, or with the standby.
  }
}

}  // namespace

PgSession::PgSession(asio::io_context& context, std::shared_ptr<PgHosts> hosts)
    : context_(context),
      timeout_(hosts->timeout),
      shown_(hosts->targets.front().shown()),
      connection_(std::make_shared<PgPrimary>(context, std::move(hosts))) {}

std::string PgSession::table(std::string_view name) const {
  return in_schema(schema(), name);
}

asio::awaitable<void> PgSession::Turn::take(Call call) {
  if (session_.is_taken_) {
    if (session_.idler_ && session_.idler_->is_waiting) {
      session_.idler_->wakeup.give_up(true);
    }
    net::Budget budget(call, session_.shown_);
    session_.next_.push_back(&call.wakeup);
    const OnExit leave(
        [&] { session_.next_.erase(std::ranges::find(session_.next_, &call.wakeup)); });
    co_await budget.wait([this] { return !session_.is_taken_; });
    budget.check();
  }
  session_.is_taken_ = is_mine_ = true;
}

void PgSession::end_turn() {
  is_taken_ = false;
  for (auto* waiting : next_) waiting->notify();
  if (idler_ && !idler_->is_waiting) idler_->wakeup.notify();
}

asio::awaitable<std::vector<Result>> PgSession::exchange(std::vector<Batch> batches,
                                                         Call call) {
  Turn turn(*this);
  co_await turn.take(call);
  const auto connection = connection_;
  co_await tell(call);
  if (connection->is_in_transaction()) connection->close();
  auto results = co_await exchange_in_schema(*connection, std::move(batches), call);
  is_pooled_ = connection->is_pooled();
  co_return results;
}

asio::awaitable<void> PgSession::tell(Call call) {
  const auto connection = connection_;
  const auto untold = std::exchange(untold_, std::nullopt);
  if (!untold || !connection->is_open()) co_return;
  const auto& lock = untold->lock;
  const auto schema = connection->target().schema;
  auto question = alone(watcher_question(schema, lock.name_space, untold->at));
  const auto reply = co_await connection->exchange(std::move(question), call);
  if (!says_yes(reply.back())) co_return;
  connection->post({bookkeeping(to_tell(schema, lock, untold->events), *connection)});
}

asio::awaitable<std::vector<Result>> PgSession::go_on(std::vector<Batch> batches,
                                                      Call call) {
  Turn turn(*this);
  co_await turn.take(call);
  const auto connection = connection_;
  if (!is_exclusive() || connection->has_failed_transaction()) {
    throw Failure::unreachable(shown_ + " has ended the transaction");
  }
  co_return co_await connection->exchange(std::move(batches), call);
}

// The result of the statement `own` of a transaction that ends with its commit.
asio::awaitable<Result> PgSession::confirmed(asio::awaitable<std::vector<Result>> commit,
                                             std::size_t own) {
  std::vector<Result> results;
  try {
    results = co_await std::move(commit);
  } catch (const Failure& failure) {
    end_wait_after(failure);
    throw;
  }
  connection_->require_replicas();
  require_confirmation(results);
  co_return std::move(results.at(own));
}

asio::awaitable<Result> PgSession::commit(Statement statement, Call call) {
  connection_->require_replicas();
  std::vector<Batch> batches{
      Batch{durably(call.until), std::move(statement), Statement{"COMMIT", {}}}};
  auto sent = go_on(std::move(batches), call);
  co_return co_await confirmed(std::move(sent), 1);
}

asio::awaitable<void> PgSession::leave(Wakeup& wakeup) {
  if (!is_exclusive()) co_return;
  Batch batch(1, Statement{"ROLLBACK", {}});
  co_await post(std::move(batch), wakeup);
}

asio::awaitable<Result> PgSession::transact(Statement statement, Call call) {
  // What is refused only afterwards would have been written nevertheless.
  const auto& replicas = connection_->hosts()->replicas;
  if (!connection_->is_open() && (replicas.all || replicas.count > 0)) {
    co_await exchange({}, call);
  }
  if (connection_->is_open()) connection_->require_replicas();
  auto batch = begin_exclusive(call.until);
  batch.push_back(durably(call.until));
  const auto own = batch.size();
  batch.push_back(std::move(statement));
  batch.push_back({"COMMIT", {}});
  auto sent = exchange(alone(std::move(batch)), call);
  co_return co_await confirmed(std::move(sent), own);
}

asio::awaitable<void> PgSession::post(Batch batch, Wakeup& wakeup) {
  std::vector<Batch> batches(1, std::move(batch));
  const auto connection = connection_;
  if (!connection->is_pooled()) co_return connection->post(batches);
  // A pooler gives up the session of a client that leaves in the middle of something.
  if (!connection->is_open()) co_return;
  const auto call = wakeup.within(bookkeeping_patience);
  try {
    Turn turn(*this);
    co_await turn.take(call);
    co_await connection->exchange(std::move(batches), call);
  } catch (const Failure&) {
    // It is as if it had not been sent.
  }
}

asio::awaitable<void> PgSession::sweep(std::string name, Wakeup& wakeup) {
  Statement remove{"DELETE FROM " + table(name) +
                       " WHERE ctid OP(=) ANY (ARRAY(SELECT s.ctid FROM " + table(name) +
                       " s WHERE s.keep_until OP(<) pg.clock_timestamp() LIMIT 100 FOR "
                       "UPDATE SKIP LOCKED))",
                   {}};
  auto batch = bookkeeping({std::move(remove)}, *connection_);
  co_await post(std::move(batch), wakeup);
}

void PgSession::require_confirmation(const std::vector<Result>& results) const {
  for (const auto& result : results) {
    if (result.warnings.empty()) continue;
    throw Failure::unreachable(shown_ + " did not confirm what it has committed: " +
                               printable(result.warnings.front().message, 200));
  }
}

void PgSession::end_wait_after(const Failure& failure) {
  const bool has_given_up = failure.kind() == Failure::Kind::interrupted ||
                            dynamic_cast<const net::Timeout*>(&failure) != nullptr;
  if (!has_given_up) return;
  opened_before_ += connection_->times_opened();
  auto old = std::exchange(connection_,
                           std::make_shared<PgPrimary>(context_, connection_->hosts()));
  asio::co_spawn(context_, cancel(context_, std::move(old)),
                 [](const std::exception_ptr&) {});
}

Failure PgSession::unreadable(std::string_view table, const LockName& name,
                              bool is_newer) const {
  const bool is_lock = table == "lock";
  auto text =
      shown_ + (is_lock ? ": the lock " : ": the limit ") + printable_name(name.name);
  if (is_newer) {
    text += " was written by a newer dlock: upgrade this one";
  } else {
    text += " is damaged: another program has written to its row: ";
    text += is_lock ? "delete the row from " + schema() + ".lock"
                    : "remove it with `dlock limit --reset`";
  }
  return Failure::misconfigured(std::move(text));
}

}  // namespace dlock::postgres
