// A connection to one PostgreSQL server or pooler: statements out, results in, each time
// within one total deadline.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loop/wakeup.hpp"
#include "store/postgres/pg_errors.hpp"
#include "store/postgres/pg_login.hpp"
#include "store/postgres/pg_target.hpp"
#include "store/postgres/pg_wire.hpp"
#include "util/clock.hpp"

namespace dlock::postgres {

// At most one call at a time. If an exchange fails with anything but a SqlError, the
// connection is closed, so that a late reply is never read as the next one; the next
// exchange opens it again.
class PgConnection {
 public:
  // Contacts nothing yet.
  PgConnection(asio::io_context& context, PgTarget target);
  ~PgConnection();

  // Whether it is open and logged in, as far as is known without contacting the server.
  bool is_open() const;

  // The same after a look at what has come since the last exchange: the server may have
  // ended the session. Throws Failure if that was in the middle of a transaction.
  bool is_still_open();

  // Whether the last exchange has left a transaction open.
  bool is_in_transaction() const;
  // Whether it can only be rolled back.
  bool has_failed_transaction() const;

  // How often it was opened: what a session has, such as LISTEN, ends with it.
  std::uint64_t times_opened() const;

  // Resolves the name, connects, encrypts and logs in. No effect if it is open. Throws
  // Failure: unreachable when `until` passes first, or for a server that does not speak
  // the protocol; rejected for a login or a certificate; misconfigured for a database
  // that does not exist or is of another product; interrupted when `wakeup` gives up.
  // Throws net::Refusal if the server takes no connection now.
  asio::awaitable<void> open(Call call);

  // Sends all batches in one write, behind the last message of the login if the
  // connection is not open, and returns the results of all statements, in order. Throws
  // SqlError, the first one, if a statement was refused, once all replies have come; a
  // transaction that it leaves behind is rolled back. Throws Failure like open(); except
  // for a SqlError, a net::Refusal and a refused login, the outcome is unknown then.
  // Opens no other connection in the middle of a transaction.
  asio::awaitable<std::vector<Result>> exchange(std::vector<Batch> batches, Call call);

  // Sends batches whose outcome is not needed, if that is possible at once; their replies
  // are read before the next exchange begins. No effect if the connection is not open.
  void post(const std::vector<Batch>& batches);

  // The next notification before `until`, also one that has already come. Nothing if
  // there is none by then; the connection stays open. Throws Failure like open() if the
  // connection is closed or ends.
  asio::awaitable<std::optional<Notification>> notification(Call call);

  // Asks the server to cancel what this connection executes, or was executing when it was
  // closed; the same server, over TLS if the connection uses it. Returns once the server
  // has taken the request, which it does without telling what became of it. No effect if
  // there was no login. Throws Failure like open().
  asio::awaitable<void> cancel(Call call);

  // Of the last login.
  const PgServerFacts& server_facts() const;
  const PgTarget& target() const;

  // Ends the session in good order unless an exchange was abandoned.
  void close();
  // Begins that for a process that exits now: does not wait for replies to what was
  // posted.
  void part();

 private:
  class Talk;
  std::unique_ptr<Talk> talk_;
};

}  // namespace dlock::postgres
