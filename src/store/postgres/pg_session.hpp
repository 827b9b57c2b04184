// The connection that all requests of one store share.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lock/history.hpp"
#include "lock/lease.hpp"
#include "loop/wakeup.hpp"
#include "store/postgres/pg_primary.hpp"

namespace dlock::postgres {

// Waits for notifications on the connection of a session while no request needs it.
struct PgIdler {
  explicit PgIdler(asio::io_context& context) : wakeup(context) {}

  Wakeup wakeup;            // gives up if the connection is needed
  bool is_waiting = false;  // on the connection
};

// The events of a step that are not told yet: whether there was a watcher `at` the time
// when they had been written, by the server's clock, is asked with what is sent next.
struct Untold {
  LockName lock;
  std::vector<Event> events;
  WallTime at;
};

// One exchange at a time uses the connection, which is opened when it is needed; the
// others wait for their turn. All calls throw Failure as PgPrimary::exchange(), and
// interrupted or net::Timeout if the turn does not come.
class PgSession {
 public:
  PgSession(asio::io_context& context, std::shared_ptr<PgHosts> hosts);

  milliseconds timeout() const { return timeout_; }
  // The server, for messages.
  const std::string& shown() const { return shown_; }
  const std::string& schema() const { return connection_->target().schema; }
  // A table of the schema, quoted.
  std::string table(std::string_view name) const;
  // After a request that was given up, another one.
  const std::shared_ptr<PgPrimary>& connection() const { return connection_; }

  // What is untold; a caller that learns whether the namespace is watched takes it.
  std::optional<Untold>& untold() { return untold_; }
  // Asks whether there was a watcher, and tells it; nothing if nothing is untold, or if
  // the connection is closed. Throws Failure as PgPrimary::exchange(). After a Failure,
  // the events are lost. The session may be destroyed meanwhile.
  asio::awaitable<void> tell(Call call);

  // Makes the schema if it is missing. A transaction that is still open, of a step that
  // failed, is given up: what is written now must not be a part of it. What is untold is
  // told first.
  asio::awaitable<std::vector<Result>> exchange(std::vector<Batch> batches, Call call);
  // Within the transaction that an exchange has left open, of begin_exclusive(). Also
  // throws Failure if it has ended.
  asio::awaitable<std::vector<Result>> go_on(std::vector<Batch> batches, Call call);
  // Ends it with this statement, as transact().
  asio::awaitable<Result> commit(Statement statement, Call call);
  // Ends it without a change. Need not wait until that is done.
  asio::awaitable<void> leave(Wakeup& wakeup);
  // Whether it is open.
  bool is_exclusive() const { return connection_->is_in_transaction(); }

  // Executes one statement in a separate durable transaction, whatever the role's
  // defaults are. Also throws Failure if the commit is not confirmed.
  asio::awaitable<Result> transact(Statement statement, Call call);
  // Sends what needs no reply, and whose failure does no harm: a later one does it.
  asio::awaitable<void> post(Batch batch, Wakeup& wakeup);
  // Removes some rows of a table whose `keep_until` is past, as post().
  asio::awaitable<void> sweep(std::string name, Wakeup& wakeup);

  // Throws Failure (unreachable) if a commit has warned: a standby has not confirmed it.
  void require_confirmation(const std::vector<Result>& results) const;
  // For a grant that ended with this failure. While its commit waits for a standby, it
  // holds the row and its session, even if its client has exited: so it is cancelled.
  void end_wait_after(const Failure& failure);

  // How often a connection was opened: what a session has, such as LISTEN, ends with it.
  std::uint64_t times_opened() const {
    return opened_before_ + connection_->times_opened();
  }
  // Whether a pooler shares its sessions, as the last exchange has found.
  bool is_pooled() const { return is_pooled_; }

  // The failure of a row of this table ("lock", "rate") that this version cannot read.
  Failure unreadable(std::string_view table, const LockName& name, bool is_newer) const;

  // Has the connection to itself. One that waits on it for notifications gives way.
  class Turn {
   public:
    explicit Turn(PgSession& session) : session_(session) {}
    ~Turn() {
      if (is_mine_) session_.end_turn();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    asio::awaitable<void> take(Call call);

   private:
    PgSession& session_;
    bool is_mine_ = false;
  };

  // For who uses the connection between the exchanges: whether a request has it or waits
  // for it; takes it, if not; gives it back. `idler` is told when it can be taken.
  bool is_needed() const { return is_taken_ || is_exclusive() || !next_.empty(); }
  bool is_wanted() const { return !next_.empty(); }
  bool is_taken() const { return is_taken_; }
  void set_idler(PgIdler* idler) { idler_ = idler; }
  void begin_turn() { is_taken_ = true; }
  void end_turn();

 private:
  asio::awaitable<Result> confirmed(asio::awaitable<std::vector<Result>> commit,
                                    std::size_t own);

  asio::io_context& context_;
  milliseconds timeout_;
  std::string shown_;
  std::shared_ptr<PgPrimary> connection_;
  std::uint64_t opened_before_ = 0;  // by the connections before this one
  std::optional<Untold> untold_;
  bool is_pooled_ = false;
  bool is_taken_ = false;      // the connection
  std::vector<Wakeup*> next_;  // who waits for it
  PgIdler* idler_ = nullptr;
};

}  // namespace dlock::postgres
