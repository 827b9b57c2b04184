// A socket to a server of PostgreSQL's protocol, encrypted as the target demands: bytes
// out, messages in.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/budget.hpp"
#include "net/stream.hpp"
#include "store/postgres/pg_login.hpp"
#include "store/postgres/pg_target.hpp"
#include "store/postgres/pg_wire.hpp"
#include "util/failure.hpp"

namespace dlock::postgres {

// After a Failure, other than one of kind interrupted while reading, the object can only
// be destroyed.
class PgLink {
 public:
  // `target` must outlive it.
  PgLink(asio::io_context& context, const PgTarget& target);

  // Resolves the name, connects and sets up TLS; see dial() for `last_used`. Throws
  // Failure: unreachable, even if the target demands TLS and the server has none;
  // rejected for a certificate; interrupted.
  asio::awaitable<void> connect(net::Budget& budget,
                                std::optional<net::Endpoint>& last_used);

  // What a login over it may do.
  const LoginChannel& channel() const { return channel_; }

  asio::awaitable<void> write(const std::string& bytes, net::Budget& budget);
  // Sends what is possible at once, behind what is left of earlier calls. Ignores
  // failures, which the next read finds.
  void post(const std::string& bytes) {
    unsent_ += bytes;
    unsent_.erase(0, stream_->write_at_once(unsent_));
  }
  // Sends what is left of it, before anything else is written.
  asio::awaitable<void> send_rest(net::Budget& budget);

  // The next message that has arrived completely; nothing if there is none. Throws
  // Failure (unreachable) for bytes that are none.
  std::optional<WireMessage> next();

  // Waits for more bytes. Throws Failure if the time runs out or the connection ends.
  asio::awaitable<void> read(net::Budget& budget);
  // The same, but returns false if the time runs out.
  asio::awaitable<bool> read_until(net::Budget& budget);
  // Takes what has arrived; false if that is nothing, or goes on without end.
  bool read_at_once();
  // Whether there is something to take, or will be within a millisecond.
  bool has_input_soon() { return stream_->has_input_soon(); }
  // Returns once the server has closed the connection.
  asio::awaitable<void> read_to_end(net::Budget& budget);

  // The server has sent what makes no sense.
  Failure nonsense(const std::string& why) const;
  Failure closed() const;

  // Discards what was not sent yet.
  void abandon() {
    if (stream_) stream_->abandon();
  }

 private:
  asio::awaitable<void> encrypt(net::Budget& budget);
  asio::awaitable<bool> agree_on_tls(net::Budget& budget);
  asio::awaitable<void> rest_at_times(net::Budget& budget);
  asio::awaitable<void> rest();
  void take(std::string_view bytes);
  std::exception_ptr with_hint(const Failure& failure) const;

  asio::io_context& context_;
  const PgTarget& target_;
  std::string shown_;
  std::unique_ptr<net::Stream> stream_;
  WireReader messages_;
  net::TlsOptions plan_;  // of the connection
  LoginChannel channel_;
  std::string unsent_;     // of what was posted
  std::string greeting_;   // the first bytes of the server
  bool is_known_ = false;  // the server has sent a message
  int reads_in_a_row_ = 0;
};

}  // namespace dlock::postgres
