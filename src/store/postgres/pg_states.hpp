// The states of locks in the rows of a PostgreSQL table.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rules/state.hpp"
#include "store/postgres/pg_primary.hpp"
#include "store/stepped/state_store.hpp"
#include "store/stepped/stepped_claimant.hpp"

namespace dlock::postgres {

using stepped::kept_token;

// What is only counted or removed waits for others no longer than this.
constexpr milliseconds bookkeeping_patience{200};

// A step reads the row, and writes it if it still has the version that was read. If
// another step was faster, the step is repeated under the lock of the row. All calls
// share one connection, which is opened when it is needed.
class PgStates final : public stepped::StateStore {
 public:
  PgStates(asio::io_context& context, std::shared_ptr<PgHosts> hosts);
  ~PgStates() override;

  milliseconds timeout() const override { return timeout_; }
  asio::awaitable<Snapshot> read(const LockName& lock, Access access, Call call) override;
  asio::awaitable<bool> write(const LockName& lock, const Snapshot& read,
                              const Change& change, Call call) override;
  asio::awaitable<void> leave(Wakeup& wakeup) override;
  asio::awaitable<void> count_refused(LockName lock, Wakeup& wakeup) override;
  asio::awaitable<std::vector<std::pair<LockName, Snapshot>>> read_all(
      const std::string& name_space, bool with_runs, Call call) override;
  std::vector<Failure> left_out() const override { return left_out_; }
  asio::awaitable<bool> sleep(rules::Session party, std::size_t place,
                              Call call) override;
  // Who is not woken must ask to notice that it is near the front.
  rules::SafetyNet safety_net() const override {
    return polls() ? rules::SafetyNet() : rules::wide_safety_net;
  }
  bool parks() const override { return true; }
  void park() override;
  void rest() override;
  std::unique_ptr<LeaseNews> listen(rules::Session party,
                                    std::function<void()> on_news) override;
  NewWatchSession watch(const Watched& watched, Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockName>> overdue(std::string name_space,
                                                 Call call) override;

  // The following is for what else is kept in the schema.

  // One at a time; makes the schema if it is missing. Throws as exchange_in_schema(). A
  // transaction that is still open, of a step that failed, is given up.
  asio::awaitable<std::vector<Result>> exchange(std::vector<Batch> batches, Call call);
  // The same within the transaction of begin_exclusive(). Also throws Failure if it has
  // ended.
  asio::awaitable<std::vector<Result>> go_on(std::vector<Batch> batches, Call call);
  // Ends the transaction of begin_exclusive() with this statement, as transact().
  asio::awaitable<Result> commit(Statement statement, Call call);
  // Executes one statement in a separate durable transaction, whatever the role's
  // defaults are. Throws Failure as exchange(), and if the commit is not confirmed.
  asio::awaitable<Result> transact(Statement statement, Call call);
  // As Store::part().
  void part() { connection_->part(); }
  // Calls `warn` as Store::report_complaints().
  void report_complaints(std::function<void(const std::string&)> warn) {
    connection_->hosts()->warn = std::move(warn);
  }
  // A table of the schema, quoted.
  std::string table(std::string_view name) const;
  // The beginning of a transaction that locks rows; write(), commit() or leave() ends it.
  Batch begin_exclusive(Clock::time_point until) const;
  // For the transaction of a statement behind it, which waits for rows until `until`: its
  // commit is on disk, and on the standbys that the server waits for, before the answer.
  Statement durably(Clock::time_point until) const;
  // Removes some rows of a table whose `keep_until` is past, as post().
  asio::awaitable<void> sweep(std::string name, Wakeup& wakeup);
  // The failure of a row of this table ("lock", "rate") that this version cannot read.
  Failure unreadable(std::string_view table, const LockName& name, bool is_newer) const;
  // The server, for messages.
  const std::string& shown() const { return shown_; }

 private:
  class News;
  class Turn;
  struct Listener;
  struct Writing;

  // Sends what needs no wait, and whose failure does no harm: a later one does it.
  asio::awaitable<void> post(Batch batch, Wakeup& wakeup);
  Failure dropped_write() const;
  void require_confirmation(const std::vector<Result>& results) const;
  std::string columns(bool with_runs) const;
  std::string is_watched() const;
  // Whether there is a watcher: one that began before `until`, at most some seconds ago.
  Statement watcher_question(const std::string& name_space,
                             std::optional<WallTime> until = {}) const;
  // As durably(), for what may be lost with a crash of the server.
  Statement unimportantly(Clock::time_point until) const;
  Statement reading(const LockName& lock) const;
  Statement page(const std::string& name_space, const std::string& behind,
                 bool with_runs) const;
  Statement to_write(const LockName& lock, const Snapshot& read, const Change& change,
                     const std::vector<Event>& events) const;
  Writing writing_of(const LockName& lock, const Snapshot& read, const Change& change,
                     const std::vector<Event>& events, Clock::time_point until) const;
  Snapshot snapshot_from(const LockName& lock, const Row& row, Clock::time_point sent_at);
  asio::awaitable<void> tell_late(Call call);
  void end_wait_after(const Failure& failure);

  Batch to_listen(rules::Session party) const;
  bool listens(rules::Session party) const;
  void note_listening(rules::Session party);
  Batch writable(Batch batch) const;
  Batch telling(const LockName& lock, const std::vector<Event>& events,
                Clock::time_point until) const;
  bool polls() const;
  asio::awaitable<std::optional<Notification>> notified(Call call);
  asio::awaitable<void> poll(std::size_t place, Call call);
  void end_turn();
  static asio::awaitable<void> keep_listening(std::shared_ptr<Listener> listener);
  static asio::awaitable<bool> listen_once(std::shared_ptr<Listener> listener);

  asio::io_context& context_;
  milliseconds timeout_;
  std::string shown_;
  std::shared_ptr<PgPrimary> connection_;
  bool is_exclusive_ = false;           // in a transaction that locks a row
  std::optional<LockName> lost_row_;    // a new one that was not made, nor found since
  bool is_taken_ = false;               // the connection, by an exchange or a listener
  std::vector<Wakeup*> next_;           // the exchanges that wait for it
  std::shared_ptr<Listener> listener_;  // of holders
  std::set<rules::Session> listening_;  // on the connection as it was opened then:
  std::uint64_t listening_since_ = 0;
  bool is_pooled_ = false;
  bool is_read_only_ = false;  // as a write has found since the session began
  // Of the last write: it is not known yet whether there was a watcher when it had been
  // written, `at` the latest by the server's clock.
  struct Untold {
    LockName lock;
    std::vector<Event> events;
    WallTime at;
  };
  std::optional<Untold> untold_;
  std::vector<Failure> left_out_;
  std::optional<Clock::time_point> polls_since_;
};

}  // namespace dlock::postgres
