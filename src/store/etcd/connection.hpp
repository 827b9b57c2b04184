// A connection to one member of a cluster: calls out, messages in, each time within one
// total deadline.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/budget.hpp"
#include "net/endpoint.hpp"
#include "net/tls_options.hpp"
#include "store/etcd/http2.hpp"
#include "store/url_parts.hpp"

namespace dlock::net {
class Stream;
}

namespace dlock::etcd {

// How a call with one answer ended: with a message if the outcome is ok, and only then.
struct Reply {
  Outcome outcome;
  std::string message;
};

// Used by one coroutine at a time. Whatever goes wrong with the bytes (closed by the
// peer, time over, what is not HTTP/2) leaves it closed, with all its calls; an error of
// the server's is the end of one call, and an interruption of those it interrupted.
class Connection {
 public:
  // Contacts nothing yet.
  Connection(asio::io_context& context, ServerAddress server,
             std::optional<net::TlsOptions> tls);
  ~Connection();

  const std::string& shown() const { return shown_; }  // the member, for messages

  // Whether it is open, as far as is known without looking.
  bool is_open() const { return http2_ != nullptr; }

  // A call is of one opening, and ends with it.
  std::uint64_t times_opened() const { return times_opened_; }

  // Closes it if the server has meanwhile, or takes no more calls on it.
  void drop_if_closed();

  // Resolves, connects and makes TLS. Throws Failure: unreachable when the time is over
  // first or the peer is not what it should be, rejected for a certificate, interrupted.
  asio::awaitable<void> open(net::Budget& budget);

  // Sends all calls at once and returns when all have ended; only if it is open. Throws
  // Failure like open().
  asio::awaitable<std::vector<Reply>> exchange(const std::vector<CallStart>& calls,
                                               net::Budget& budget);

  // Begins a call that lasts. What it says comes while others are awaited, too. Only if
  // it is open.
  CallId begin(const CallStart& start);
  void send(CallId call, std::string_view message);
  void drop(CallId call);

  // The next message of it; nothing if it has ended, or the time is over first, and then
  // it goes on. Throws Failure like open().
  asio::awaitable<std::optional<std::string>> next_message(CallId call,
                                                           net::Budget& budget);
  // How it ended; nothing if it did not.
  std::optional<Outcome> outcome(CallId call) const;

  void close();

 private:
  asio::awaitable<net::Endpoints> find_endpoints(net::Budget& budget);
  asio::awaitable<void> send_all(net::Budget& budget);
  void take_in(std::string_view bytes);
  Reply reply_to(CallId call);
  Failure with_hint(const Failure& failure) const;
  void close_unless_harmless(const Failure& failure);

  asio::io_context& context_;
  ServerAddress server_;
  std::optional<net::TlsOptions> tls_;
  std::string shown_;
  std::unique_ptr<net::Stream> stream_;
  std::unique_ptr<Http2> http2_;
  std::optional<net::Endpoint> last_used_;
  std::uint64_t times_opened_ = 0;
  bool is_writing_ = false;  // a part of what is to be sent was
  bool has_heard_ = false;   // on this connection
};

}  // namespace dlock::etcd
