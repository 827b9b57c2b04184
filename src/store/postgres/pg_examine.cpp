// Asks the servers of a URL for what the checks need.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/fan_out.hpp"
#include "store/postgres/pg_connection.hpp"
#include "store/postgres/pg_health.hpp"
#include "store/postgres/pg_schema.hpp"
#include "store/postgres/pg_standing.hpp"
#include "store/postgres/pg_store.hpp"
#include "store/postgres/pg_target.hpp"
#include "store/postgres/pg_trust.hpp"
#include "util/bits.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

// A server with the connection on which it answered.
struct Host {
  HostFacts facts;
  PgStanding standing;
  std::shared_ptr<PgConnection> connection;
};

bool is_this_machine(const PgTarget& target) {
  return !target.path.empty() || target.host == "localhost" || target.host == "::1" ||
         target.host.starts_with("127.");
}

std::string shown_method(const std::string& method) {
  if (method.starts_with("scram")) return "SCRAM-SHA-256";
  if (method == "md5") return "MD5";
  return method == "trust" ? "" : method;
}

void note_session(const PgConnection& connection, HostFacts& facts) {
  const auto& session = connection.server_facts();
  facts.is_local = is_this_machine(connection.target());
  facts.is_encrypted = session.is_encrypted;
  if (session.is_proven && connection.target().path.empty()) {
    facts.proof = session.method.ends_with("-plus") ? "channel binding with the password"
                                                    : "its certificate";
  }
  facts.login = shown_method(session.method);
}

asio::awaitable<Host> ask_host(asio::io_context& context, PgTarget target,
                               milliseconds timeout, Wakeup& wakeup) {
  Host host;
  host.facts.server = target.shown();
  if (target.application_name.empty()) target.application_name = "dlock doctor";
  target.wants_to_know = true;
  host.connection = std::make_shared<PgConnection>(context, std::move(target));
  try {
    co_await host.connection->open(wakeup.within(timeout));
    note_session(*host.connection, host.facts);
    std::vector<Batch> question(1, Batch(1, standing_question(true)));
    const auto replies =
        co_await host.connection->exchange(std::move(question), wakeup.within(timeout));
    // Another product may not know what that asks for.
    host.standing = standing_from(replies.front()).value_or(PgStanding());
    host.facts.is_standby = host.standing.is_standby;
  } catch (const Failure& failure) {
    host.facts.failure = let_pass(failure);
  }
  co_return host;
}

class PrimaryExaminer {
 public:
  PrimaryExaminer(PgFacts& facts, PgConnection& connection, const ExaminationOrder& order,
                  Wakeup& wakeup)
      : facts_(facts), connection_(connection), order_(order), wakeup_(wakeup) {}

  asio::awaitable<void> examine() {
    try {
      co_await ask_version();
      co_await ask(false);
      if (can_read_locks(facts_)) co_await ask(true);
      if (facts_.listens) co_await try_to_notify();
      co_await measure(facts_, new_call().until, [this]() -> asio::awaitable<void> {
        std::vector<Batch> nothing(1, Batch(1, Statement{"SELECT 1", {}}));
        co_await exchange(std::move(nothing));
      });
      if (facts_.is_pooled) co_await try_transaction();
    } catch (const Failure& failure) {
      facts_.failure = let_pass(failure);
    }
  }

 private:
  Call new_call() const { return wakeup_.within(order_.timeout); }

  asio::awaitable<std::vector<Result>> exchange(std::vector<Batch> batches) {
    return connection_.exchange(std::move(batches), new_call());
  }

  asio::awaitable<void> ask_version() {
    const Statement version{
        "SELECT pg_catalog.version(), "
        "pg_catalog.current_setting('server_version_num'), pg_catalog.pg_backend_pid(), "
        "current_user, pg_catalog.current_database(), " +
            std::string(clock_micros),
        {}};
    std::vector<Batch> batches(1, Batch(1, version));
    const auto before = wall_now();
    const auto replies = co_await exchange(std::move(batches));
    const auto now = (before + wall_now()) / 2;
    const auto text = [&](std::size_t column) {
      const auto server = connection_.target().shown();
      const auto& row = row_at(replies.front(), 0, server);
      return column_at(row, column, server).value_or("");
    };
    facts_.product = text(0);
    facts_.version = connection_.server_facts().server_version;
    facts_.version_number = number_in<int>(text(1)).value_or(0);
    facts_.is_pooled = number_in<std::int32_t>(text(2)) != connection_.server_facts().pid;
    facts_.user = text(3);
    facts_.database = text(4);
    facts_.listens = can_listen(connection_.target().listening, facts_.is_pooled);
    if (const auto said = number_in<std::int64_t>(text(5))) {
      facts_.clock_ahead = std::chrono::microseconds(*said) - now;
    }
  }

  // Asks all at once.
  asio::awaitable<void> ask(bool about_locks) {
    std::vector<Question> asked;
    std::vector<Batch> batches;
    for (const auto& question : questions()) {
      if (question.reads_locks != about_locks) continue;
      asked.push_back(question);
      batches.push_back(in_catalog(
          replaced(std::string(question.sql), "$LOCKS", in_schema(facts_.schema, "lock")),
          facts_.schema));
      if (about_locks) batches.back().back().params.emplace_back(order_.name_space);
      for (auto& statement : batches.back()) statement.may_fail = true;
    }
    const auto results = co_await exchange(std::move(batches));
    std::size_t next = 0;
    for (const auto& question : asked) {
      // What follows a statement that was refused has no result.
      if (results.at(next++).tag.empty()) continue;
      facts_.answers[std::string(question.check)] = results.at(next++).rows;
    }
  }

  // A pooler may end the session because of it.
  asio::awaitable<void> try_transaction() {
    std::vector<Batch> batches(2);
    batches[0].push_back({"BEGIN", {}});
    batches[1].push_back({"COMMIT", {}});
    try {
      co_await exchange(std::move(batches));
    } catch (const Failure& failure) {
      facts_.transaction_failure = let_pass(failure);
    }
  }

  asio::awaitable<void> try_to_notify() {
    const auto random = random_bytes();
    const auto channel = "dlock_doctor_" + hex(random.data(), 8);
    std::vector<Batch> batches(2);
    batches[0].push_back({"LISTEN " + channel, {}});
    batches[1].push_back({"SELECT pg_catalog.pg_notify($1, '')", {channel}});
    try {
      co_await exchange(std::move(batches));
      const auto came = co_await connection_.notification(new_call());
      facts_.was_notified = came.has_value();
    } catch (const Failure& failure) {
      facts_.listen_failure = let_pass(failure);
    }
  }

  PgFacts& facts_;
  PgConnection& connection_;
  const ExaminationOrder& order_;
  Wakeup& wakeup_;
};

void note_primary(const std::vector<Host>& hosts, PgFacts& facts) {
  std::vector<std::optional<PgStanding>> standings;
  std::vector<std::string> servers;
  for (const auto& host : hosts) {
    facts.hosts.push_back(host.facts);
    standings.push_back(host.facts.failure ? std::nullopt : std::optional(host.standing));
    servers.push_back(host.facts.server);
  }
  auto choice = chosen_primary(standings, servers);
  facts.primary = choice.server;
  facts.complaint = std::move(choice.complaint);
}

// Of a renewal that has to connect: the read rides behind the login.
int trips_to_renew(const HostFacts& host) {
  constexpr int connect_read_and_write = 3;
  constexpr int tls = 3;
  constexpr int scram = 2;
  return connect_read_and_write + (host.is_encrypted ? tls : 0) +
         (host.login.empty() ? 0 : scram);
}

}  // namespace

asio::awaitable<Examination> examine(const ExaminationOrder& order,
                                     asio::io_context& context, Wakeup& wakeup) {
  const auto targets = targets_of(order.url);
  const auto ask_one = [loop = &context, targets, timeout = order.timeout](
                           std::size_t number, Wakeup& own) {
    return ask_host(*loop, targets[number], timeout, own);
  };
  const auto hosts = co_await ask_all<Host>(context, targets.size(), ask_one, wakeup);
  PgFacts facts;
  facts.user = targets.front().user;
  facts.database = targets.front().database;
  facts.schema = targets.front().schema;
  facts.schema_command = schema_command(targets.front());
  facts.store_timeout = order.store_timeout;
  facts.replicas = order.url.replicas;
  note_primary(hosts, facts);
  if (facts.primary) {
    const auto& primary = hosts[*facts.primary];
    facts.trips_to_renew = trips_to_renew(primary.facts);
    facts.standby_names = primary.standing.standby_names;
    facts.too_few_standbys =
        too_few_standbys(facts.replicas, facts.standby_names, primary.standing.standbys);
    PrimaryExaminer examiner(facts, *primary.connection, order, wakeup);
    co_await examiner.examine();
  }
  co_return examination_of(findings_of(facts), {facts});
}

}  // namespace dlock::postgres
