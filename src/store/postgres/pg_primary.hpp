// The connection to the primary among the servers that a URL names.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "store/postgres/pg_connection.hpp"
#include "store/postgres/pg_errors.hpp"
#include "store/postgres/pg_standing.hpp"
#include "store/postgres/pg_wire.hpp"

namespace dlock::postgres {

// What a session executes a second time, the server need not parse again, nor plan. Not
// behind a pooler, where the next transaction may have another session. To keep
// statements costs more than it saves in the session of a run that does not wait.
class KeptStatements {
 public:
  // Names those of the statements that are worth it. The batches are what is sent next in
  // this session.
  void name(std::uint64_t session, std::vector<Batch>& batches);

  // None of what name() has named last was refused.
  void note();

  // Whether the server has lost a statement, as behind a pooler that does not look like
  // one. None is named from then on.
  bool is_lost(const SqlError& error);

 private:
  std::uint64_t session_ = 0;
  unsigned exchanges_ = 0;                    // in the session, behind its first one
  bool is_worth_it_ = false;                  // in the session
  std::map<std::string, std::string> names_;  // of SQL
  std::map<std::string, std::string> new_;
  unsigned used_names_ = 0;  // those of refused statements as well
  bool is_off_ = false;
};

// The servers of a store, and what all connections to them have found out.
struct PgHosts {
  std::string url;                // without secrets, with all that the variables say
  std::vector<PgTarget> targets;  // at least one
  milliseconds timeout{};         // of an operation
  Replicas replicas;
  // Told once that a second server says that it is the primary, or that the database is a
  // copy.
  std::function<void(const std::string&)> warn;
  std::string warned;          // the last warning
  std::uint32_t timeline = 0;  // the greatest that was seen; 0: none was
  bool is_copy = false;        // as far as is known: see Distrust
  void complain(const std::string& what) {
    if (warn && what != std::exchange(warned, what)) warn(what);
  }
  bool are_several() const { return targets.size() > 1; }
};

// Throws Failure as targets_of().
std::shared_ptr<PgHosts> hosts_of(const StoreUrl& url, milliseconds timeout);

// Used like PgConnection. Each new session is one of the primary: with several servers,
// all are contacted at the same time, and standbys and a primary of an earlier timeline
// are not used. A server that takes no connection now is tried again for a while, with
// growing pauses.
class PgPrimary {
 public:
  // Contacts nothing yet.
  PgPrimary(asio::io_context& context, std::shared_ptr<PgHosts> hosts);

  bool is_open() const { return connection_->is_open(); }
  bool is_in_transaction() const { return connection_->is_in_transaction(); }
  bool has_failed_transaction() const { return connection_->has_failed_transaction(); }
  std::uint64_t times_opened() const {
    return opened_before_ + connection_->times_opened();
  }
  const PgServerFacts& server_facts() const { return connection_->server_facts(); }
  const PgTarget& target() const { return connection_->target(); }
  const std::shared_ptr<PgHosts>& hosts() const { return hosts_; }
  void close() { connection_->close(); }
  void part() { connection_->part(); }

  // Names sessions that begin later, for those who look at what a server does, unless
  // they have a name.
  void introduce(const std::string& name);

  // As those of PgConnection. They also throw Failure (unreachable) if no server is a
  // primary, and if the one that was in use is not any more: then what was sent to it may
  // have been executed there. Failure (misconfigured, rejected) if the owners of the
  // schema are not trusted, or rows are hidden: then nothing was executed.
  asio::awaitable<void> open(Call call);
  asio::awaitable<std::vector<Result>> exchange(std::vector<Batch> batches, Call call);
  void post(const std::vector<Batch>& batches) { connection_->post(batches); }
  asio::awaitable<std::optional<Notification>> notification(Call call) {
    return connection_->notification(call);
  }
  asio::awaitable<void> cancel(Call call) { return connection_->cancel(call); }

  // Whether sessions are shared by a pooler, as far as is known.
  bool is_pooled() const;

  // Whether the session is known to be shared with no one, and executes again what the
  // server has kept.
  bool keeps_statements() const {
    return known_session_ == times_opened() && standing_.pid != 0 && !is_pooled();
  }

  // Whether transactions are read-only that do not say otherwise, as far as is known.
  bool is_read_only() const { return standing_.is_read_only || has_refused_to_write_; }
  // For who was refused a write because of that.
  void note_read_only() { has_refused_to_write_ = true; }

  // Of the session; 0: unknown.
  std::uint32_t timeline() const { return standing_.timeline; }

  // Throws Failure (unreachable) unless, when the last exchange ended, commits waited for
  // as many standbys as --replicas asks for, and these were connected.
  void require_replicas() const;

 private:
  struct Found;

  asio::awaitable<void> find(std::optional<std::string>& printed, Call call);
  asio::awaitable<void> find_once(const std::optional<std::string>& printed, Call call);
  asio::awaitable<std::vector<Result>> asked(std::vector<Batch> batches, Call call);
  void take(const std::optional<PgStanding>& standing);
  asio::awaitable<void> demand_trust(Call call);
  void use(std::shared_ptr<PgConnection> connection);
  Failure no_primary(
      const std::vector<std::optional<std::variant<Found, Failure>>>& answers) const;

  asio::io_context& context_;
  std::shared_ptr<PgHosts> hosts_;
  std::shared_ptr<PgConnection> connection_;
  std::uint64_t opened_before_ = 0;  // the sessions of connections before this one
  std::uint64_t known_session_ = 0;  // whose standing this is:
  PgStanding standing_;
  bool has_refused_to_write_ = false;
  std::uint64_t trusted_session_ = 0;  // in which the owners of the schema are trusted
  KeptStatements kept_;
};

}  // namespace dlock::postgres
