// A PostgreSQL server in memory: its protocol, and the statements with which dlock keeps
// the rows of locks, with transactions, row locks and notifications.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "store/postgres/pg_wire.hpp"
#include "tests/simulation/kernel.hpp"

namespace dlock::simulation {

class PgServer final : public Peer {
 public:
  PgServer(Executed executed, Time lag) : executed_(std::move(executed)), lag_(lag) {}

  void received(const std::shared_ptr<Connection>& from, std::string_view bytes) override;
  void closed(const std::shared_ptr<Connection>& by) override;
  // Loses what was not committed durably; or its standby takes over, which is behind.
  void crash() override;
  void start() override;
  bool remove(const std::string& lock) override;
  Leases leases(const std::string& lock) override;

 private:
  struct Session;
  struct Row {
    std::int64_t version = 0;
    std::string format, state, runs;
    std::int64_t refused = 0;
  };
  struct Lock {
    std::optional<Row> row, before;  // `before`: what the others see meanwhile
    std::optional<Row> durable;
    Session* owner = nullptr;        // of the row lock
    std::vector<Session*> wait_for;  // the row, in order
    std::string parsed;              // the state of which these are the leases
    std::map<std::uint64_t, std::int64_t> ends;

    const std::optional<Row>& committed() const { return owner ? before : row; }
  };
  struct Session {
    std::shared_ptr<Connection> connection;
    int pid = 0;
    std::string bytes;                              // that were not read
    std::string unsent;                             // replies before the next Sync
    std::map<std::string, std::string> statements;  // by name
    std::string sql;
    postgres::Row params;
    char transaction = 'I';     // as in ReadyForQuery
    bool is_implicit = false;   // a transaction up to the next Sync
    bool skips = false;         // after an error, up to the next Sync
    bool is_durable = true;     // synchronous_commit
    bool is_closed = false;     // by the client
    std::int64_t began_at = 0;  // the transaction, by the clock of the server
    Time lock_timeout = 0;      // 0: none
    Time idle_timeout = 0;      // the same, within a transaction
    std::uint64_t waits = 0;    // for the row: the number of the wait; 0 if it does not
    std::uint64_t syncs = 0;
    std::set<std::string> channels;
  };
  // As a statement is executed: whether it has to wait for the row first.
  enum class Progress { done, waits };

  Session* session_of(const Connection& connection);
  void proceed(Session& session);
  bool take_startup(Session& session);
  void take(Session& session, char type, std::string_view body);
  void execute(Session& session);
  Progress perform(Session& session);
  void set(Session& session);
  Lock& lock_of(const Session& session) { return locks_[session.params[1].value()]; }
  bool may_change(Session& session);
  Progress change(Session& session);
  void read(Session& session);
  void notify(std::string_view channels, std::string_view payload);
  void row(Session& session, const postgres::Row& columns);
  void fail(Session& session, const char* code);
  void sync(Session& session);
  void end_transaction(Session& session, bool commits);
  void end_change(Lock& lock, Session& session, bool commits, bool is_durable);
  void copy_to_standby();
  void remove(Session& session);

  Executed executed_;
  std::list<Session> sessions_;
  std::map<std::string, Lock> locks_;  // by name
  int pids_ = 0;
  std::uint64_t waits_ = 0;
  std::uint64_t greatest_ = 0;  // fence of the main lock
  Time lag_ = 0;                // of the standby; 0: there is none
  std::map<std::string, std::optional<Row>> copied_;
  int timeline_ = 1;
};

}  // namespace dlock::simulation
