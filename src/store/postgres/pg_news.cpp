#include "store/postgres/pg_news.hpp"

#include <array>
#include <set>
#include <utility>

#include "record/run_lines.hpp"
#include "store/postgres/pg_schema.hpp"
#include "store/postgres/pg_states.hpp"
#include "util/bits.hpp"
#include "util/json.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
std::string channel_of(rules::Session party) {
  std::array<std::uint8_t, sizeof party> bytes{};
  for (auto& byte : bytes) {
    byte = static_cast<std::uint8_t>(party >> 56u);
    party <<= 8u;
  }
  return "dlock_" + hex(bytes.data(), bytes.size());
}

std::string events_channel(const std::string& schema, const std::string& name_space) {
  return "dlock_ev_" + checksum_text(checksum(schema + '\0' + name_space));
}

Batch to_wake(const std::vector<rules::Session>& wake,
              const std::vector<rules::Session>& in_front) {
  Batch batch;
  std::string channels;
  for (const auto party : wake) {
    if (party != 0) channels += (channels.empty() ? "{" : ",") + channel_of(party);
  }
  if (wake.size() == 1 && !channels.empty()) {
    // Without a function, which a new session would have to look up.
    batch.push_back({"NOTIFY " + channel_of(wake[0]), {}, true});
  } else if (!channels.empty()) {
    batch.push_back(
        {"SELECT pg_catalog.pg_notify(c, '') FROM "
         "pg_catalog.unnest($1::pg_catalog.text[]) c",
         {channels + "}"},
         true});
  }
  for (const auto party : in_front) {
    const auto payload = ", '" + std::string(in_front_payload) + "'";
    batch.push_back({"NOTIFY " + channel_of(party) + payload, {}, true});
  }
  return batch;
}

std::string lines_of(const std::vector<Event>& events) {
  std::string array = "{";
  for (const auto& event : events) {
    const auto object = object_from(record::line_of(event));
    const auto line = object ? object->dump(-1, ' ', true, Json::error_handler_t::replace)
                             : std::string("{}");
    array += array.back() == '{' ? "\"" : ",\"";
    for (const char c : line) {
      if (c == '"' || c == '\\') array += '\\';
      array += c;
    }
    array += '"';
  }
  return array + "}";
}

std::string to_record(const std::string& schema, const std::string& lines) {
  return "INSERT INTO " + in_schema(schema, "event") +
         " (namespace, xact, line, keep_until) SELECT $1, pg_catalog.txid_current(), "
         "e.line, pg_catalog.clock_timestamp() "
         "OPERATOR(pg_catalog.+) pg_catalog.make_interval(secs => " +
         std::to_string(watcher_lasts.count()) + ") FROM pg_catalog.unnest(" + lines +
         "::pg_catalog.text[]) WITH ORDINALITY AS e(line, n)";
}

Statement to_hint(const std::string& schema, const std::string& name_space) {
  return {"NOTIFY " + events_channel(schema, name_space), {}, true};
}

Batch to_tell(const std::string& schema, const LockName& lock,
              const std::vector<Event>& events) {
  return {
      {to_record(schema, "$2") + " ORDER BY e.n", {lock.name_space, lines_of(events)}},
      to_hint(schema, lock.name_space)};
}

bool says_yes(const Result& reply) {
  return !reply.rows.empty() && !reply.rows[0].empty() && reply.rows[0][0] == "t";
}

Statement for_listeners(std::string_view version) {
  const auto major = major_version(version);
  std::string sql = "SELECT pg_catalog.set_config('tcp_keepalives_idle', '30', false)";
  sql += ", pg_catalog.set_config('tcp_user_timeout', '30000', false)";
  if (major >= 14) sql += ", pg_catalog.set_config('idle_session_timeout', '0', false)";
  // Who listens executes a kept statement again soon.
  sql += ", pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', false)";
  return {std::move(sql), {}};
}

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
           milliseconds timeout, const Watched& watched, Wakeup& wakeup)
      : connection_(context, std::move(hosts)),
        timeout_(timeout),
        watched_(watched),
        wakeup_(wakeup) {
    connection_.introduce("dlock watch");
    const auto bytes = random_bytes();
    id_ = hex(bytes.data(), bytes.size());
  }

  // A step that is written after the row was made records its events, see
  // PgStates::write().
  asio::awaitable<void> begin() override {
    const auto call = wakeup_.within(timeout_);
    co_await connection_.open(call);
    const auto& target = connection_.target();
    auto statements = to_be_known();
    listens_ = can_listen(target.listening, connection_.is_pooled());
    if (listens_) {
      statements.push_back(for_listeners(connection_.session().server_version));
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
      throw Failure(Failure::Kind::unreachable,
                    connection_.target().shown() + " closed the connection");
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
        "SELECT pg_catalog.txid_snapshot_xmin(pg_catalog.txid_current_snapshot()), "
        "e.id, e.line FROM (SELECT 1) one LEFT JOIN (SELECT v.id, v.line FROM " +
            in_schema(connection_.target().schema, "event") +
            " v WHERE v.namespace OPERATOR(pg_catalog.=) $1 AND v.xact "
            "OPERATOR(pg_catalog.>=) $2::pg_catalog.int8 ORDER BY v.id LIMIT " +
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
    throw Failure(Failure::Kind::unreachable, server + ": too many events at once");
  }

  // The row of this watcher; those of others that have ended are removed.
  Batch to_be_known() const {
    const auto table = in_schema(connection_.target().schema, "watcher");
    Batch batch;
    batch.push_back({"DELETE FROM " + in_schema(connection_.target().schema, "event") +
                         " e WHERE e.keep_until OPERATOR(pg_catalog.<) "
                         "pg_catalog.clock_timestamp()",
                     {}});
    batch.push_back({"DELETE FROM " + table +
                         " w WHERE w.until OPERATOR(pg_catalog.<) "
                         "pg_catalog.clock_timestamp()",
                     {}});
    batch.push_back({"INSERT INTO " + table +
                         " AS w (namespace, id, until) VALUES ($1, $2, "
                         "pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) "
                         "pg_catalog.make_interval(secs => $3::pg_catalog.float8)) ON "
                         "CONFLICT (namespace, id) DO UPDATE SET until = excluded.until",
                     {watched_.name_space, id_, std::to_string(watcher_lasts.count())}});
    return batch;
  }

  PgPrimary connection_;
  milliseconds timeout_;
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

NewWatchSession PgStates::watch(const Watched& watched, Wakeup& wakeup) {
  return [&, this] {
    return std::make_unique<Watching>(context_, connection_->hosts(), timeout_, watched,
                                      wakeup);
  };
}

asio::awaitable<std::vector<LockName>> PgStates::overdue(std::string name_space,
                                                         Call call) {
  Statement select{"SELECT l.name FROM " + table("lock") +
                       " l WHERE l.namespace OPERATOR(pg_catalog.=) $1 AND l.due "
                       "OPERATOR(pg_catalog.<) pg_catalog.clock_timestamp() ORDER BY "
                       "l.due LIMIT 100",
                   {name_space}};
  std::vector<Batch> batches(1, Batch(1, std::move(select)));
  const auto results = co_await exchange(std::move(batches), call);
  std::vector<LockName> locks;
  for (const auto& row : results.at(0).rows) {
    locks.push_back({name_space, column_at(row, 0, shown_).value_or("")});
  }
  co_return locks;
}

}  // namespace dlock::postgres
