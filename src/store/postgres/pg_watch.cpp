#include "store/postgres/pg_watch.hpp"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "record/run_lines.hpp"
#include "store/postgres/pg_news.hpp"
#include "store/postgres/pg_schema.hpp"
#include "util/bits.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

constexpr milliseconds renew_every{20'000};

constexpr milliseconds look_every{1000};

// The most that is read at once: a reply also has limits.
constexpr std::size_t most_events = 10'000;

// What is shown is read from the table: a notification, which anyone can send who may
// connect, only makes it look at once.
class Watching final : public WatchSession {
 public:
  Watching(asio::io_context& context, std::shared_ptr<PgHosts> hosts,
           const Watched& watched, Wakeup& wakeup)
      : timeout_(hosts->timeout),
        connection_(context, std::move(hosts)),
        watched_(watched),
        wakeup_(wakeup) {
    connection_.introduce("dlock watch");
    const auto bytes = random_bytes();
    id_ = hex(bytes.data(), bytes.size());
  }

  // A step that is written after the row was made records its events, see
  // PgRows::write().
  asio::awaitable<void> begin() override {
    const auto call = wakeup_.within(timeout_);
    co_await connection_.open(call);
    const auto& target = connection_.target();
    auto statements = to_be_known();
    listens_ = can_listen(target.listening, connection_.is_pooled());
    if (listens_) {
      statements.push_back(for_listeners(connection_.server_facts().server_version));
      const auto channel = events_channel(target.schema, watched_.name_space);
      statements.push_back({"LISTEN " + channel, {}});
    }
    std::vector<Batch> batches(1, in_transaction(std::move(statements)));
    batches.push_back(Batch(1, recorded()));
    const auto results =
        co_await exchange_in_schema(connection_, std::move(batches), call);
    news_in(results.back());  // has happened before
    opened_ = connection_.times_opened();
    renew_at_ = later(Clock::now(), renew_every);
  }

  asio::awaitable<void> go_on(EventSink& sink) override {
    if (!listens_) {
      co_await wakeup_.sleep_until(later(Clock::now(), look_every));
    } else if (co_await connection_.notification(wakeup_.within(look_every))) {
      const auto pause = restraint_.pause(Clock::now());
      if (pause.count() > 0) co_await wakeup_.sleep_until(later(Clock::now(), pause));
      // One look is enough for all hints that have come.
      while (co_await connection_.notification(Call{Clock::now(), wakeup_})) continue;
    }
    std::vector<Batch> batches(1, Batch(1, recorded()));
    if (Clock::now() >= renew_at_) {
      renew_at_ = later(Clock::now(), renew_every);
      batches.insert(batches.begin(), in_transaction(to_be_known()));
    }
    const auto results =
        co_await connection_.exchange(std::move(batches), wakeup_.within(timeout_));
    if (connection_.times_opened() != opened_) {
      throw Failure::unreachable(connection_.target().shown() + " closed the connection");
    }
    for (const auto& line : news_in(results.back())) {
      const auto event = record::event_from(line);
      if (event && watched_.covers(event->lock)) sink.happened(*event);
    }
  }

 private:
  // Those that may be new: of transactions that were not over at the last look.
  Statement recorded() const {
    return {
        "SELECT pg.txid_snapshot_xmin(pg.txid_current_snapshot()), e.id, e.line FROM "
        "(SELECT 1) one LEFT JOIN (SELECT v.id, v.line FROM " +
            in_schema(connection_.target().schema, "event") +
            " v WHERE v.namespace OP(=) $1 AND v.xact OP(>=) $2::pg.int8 ORDER BY v.id "
            "LIMIT " +
            std::to_string(most_events + 1) + ") e ON true ORDER BY e.id",
        {watched_.name_space, std::to_string(from_)}};
  }

  std::vector<std::string> news_in(const Result& reply) {
    const auto server = connection_.target().shown();
    std::vector<std::string> lines;
    std::set<std::int64_t> ids;
    for (const auto& row : reply.rows) {
      from_ = number_at(row, 0).value_or(from_);
      const auto id = number_at(row, 1);
      if (!id) continue;
      if (seen_.count(*id) == 0) lines.push_back(column_at(row, 2, server).value_or(""));
      ids.insert(*id);
    }
    seen_ = std::move(ids);
    if (seen_.size() <= most_events) return lines;
    throw Failure::unreachable(server + ": too many events at once");
  }

  // The row of this watcher; those of others that have ended are removed.
  Batch to_be_known() const {
    const auto table = in_schema(connection_.target().schema, "watcher");
    Batch batch;
    batch.push_back({"DELETE FROM " + in_schema(connection_.target().schema, "event") +
                         " e WHERE e.keep_until OP(<) pg.clock_timestamp()",
                     {}});
    batch.push_back(
        {"DELETE FROM " + table + " w WHERE w.until OP(<) pg.clock_timestamp()", {}});
    batch.push_back(
        {"INSERT INTO " + table +
             " AS w (namespace, id, until) VALUES ($1, $2, pg.clock_timestamp() OP(+) "
             "pg.make_interval(secs => $3::pg.float8)) ON CONFLICT (namespace, id) DO "
             "UPDATE SET until = excluded.until",
         {watched_.name_space, id_, std::to_string(watcher_lasts.count())}});
    return batch;
  }

  milliseconds timeout_;
  PgPrimary connection_;
  const Watched& watched_;
  Wakeup& wakeup_;
  std::string id_;
  bool listens_ = false;
  std::uint64_t opened_ = 0;  // the session
  Clock::time_point renew_at_;
  Restraint restraint_;
  std::int64_t from_ = 0;        // what is not yet over, of transactions
  std::set<std::int64_t> seen_;  // of these
};

}  // namespace

NewWatchSession watches(asio::io_context& context, std::shared_ptr<PgHosts> hosts,
                        const Watched& watched, Wakeup& wakeup) {
  return [&context, hosts = std::move(hosts), &watched, &wakeup] {
    return std::make_unique<Watching>(context, hosts, watched, wakeup);
  };
}

}  // namespace dlock::postgres
