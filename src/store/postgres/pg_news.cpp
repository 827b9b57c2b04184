#include "store/postgres/pg_news.hpp"

#include <array>
#include <utility>

#include "record/run_lines.hpp"
#include "store/postgres/pg_schema.hpp"
#include "store/postgres/pg_states.hpp"
#include "util/bits.hpp"
#include "util/json.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

// A notification of 8,000 bytes is refused.
constexpr std::size_t longest_payload = 7'900;

// Longer ones, which are rare, lose what they can do without.
std::string payload_of(Event event) {
  for (bool is_shortened = false;; is_shortened = true) {
    const auto line = object_from(record::line_of(event));
    auto text = line ? line->dump(-1, ' ', true, Json::error_handler_t::replace) : "";
    if (text.size() <= longest_payload || is_shortened) return text;
    event.command.clear();
    event.Description::operator=(Description());
  }
}

}  // namespace

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

std::string payloads_of(const std::vector<Event>& events) {
  std::string array = "{";
  for (const auto& event : events) {
    if (array.back() != '{') array += ',';
    array += '"';
    for (const char c : payload_of(event)) {
      if (c == '"' || c == '\\') array += '\\';
      array += c;
    }
    array += '"';
  }
  return array + "}";
}

Batch to_tell(const std::string& schema, const LockName& lock,
              const std::vector<Event>& events) {
  return {
      {"SELECT pg_catalog.pg_notify($1, e) FROM "
       "pg_catalog.unnest($2::pg_catalog.text[]) e",
       {events_channel(schema, lock.name_space), payloads_of(events)}}};
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

  // Listens in the transaction that makes the row: a step that is written after it is
  // told to this session, see PgStates::write().
  asio::awaitable<void> begin() override {
    const auto call = wakeup_.within(timeout_);
    co_await connection_.open(call);
    const auto& target = connection_.target();
    if (!can_listen(target.listening, connection_.is_pooled())) {
      throw Failure(Failure::Kind::unsupported,
                    target.shown() +
                        ": watch has to listen, which a pooler does not allow: name the "
                        "server itself, or add ?listen=on if sessions are not shared");
    }
    auto statements = to_be_known();
    statements.push_back(for_listeners(connection_.session().server_version));
    const auto channel = events_channel(target.schema, watched_.name_space);
    statements.push_back({"LISTEN " + channel, {}});
    std::vector<Batch> batches(1, in_transaction(std::move(statements)));
    co_await exchange_in_schema(connection_, std::move(batches), call);
    listens_since_ = connection_.times_opened();
    renew_at_ = later(Clock::now(), renew_every);
  }

  asio::awaitable<void> go_on(EventSink& sink) override {
    const auto told = co_await connection_.notification(wakeup_.within(look_every));
    if (told) {
      const auto event = record::event_from(told->payload);
      if (event && watched_.covers(event->lock)) sink.happened(*event);
    }
    if (Clock::now() < renew_at_) co_return;
    renew_at_ = later(Clock::now(), renew_every);
    std::vector<Batch> batches(1, in_transaction(to_be_known()));
    const auto call = wakeup_.within(timeout_);
    co_await connection_.exchange(std::move(batches), call);
    if (connection_.times_opened() == listens_since_) co_return;
    throw Failure(Failure::Kind::unreachable,
                  connection_.target().shown() + " closed the connection");
  }

 private:
  // The row of this watcher; those of others that have ended are removed.
  Batch to_be_known() const {
    const auto table = in_schema(connection_.target().schema, "watcher");
    Batch batch;
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
  std::uint64_t listens_since_ = 0;  // the session
  Clock::time_point renew_at_;
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
