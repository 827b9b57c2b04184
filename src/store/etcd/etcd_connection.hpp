// A connection to one member of a cluster: sends calls and receives messages, each within
// one total deadline.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grpc/http2.hpp"
#include "net/budget.hpp"
#include "net/dial.hpp"
#include "net/tls_context.hpp"
#include "store/url_parts.hpp"

namespace dlock::net {
class Stream;
}

namespace dlock::etcd {

// The result of a call with one reply; it has a message only if the outcome is ok.
struct CallReply {
  grpc::CallOutcome outcome;
  std::string message;
};

// Used by one coroutine at a time. A failure of the transport (closed by the peer, timed
// out, not HTTP/2) closes it with all its calls. An error of the server ends one call; an
// interruption ends the calls that it interrupted.
class EtcdConnection {
 public:
  // Contacts nothing yet.
  EtcdConnection(asio::io_context& context, ServerAddress server,
                 std::optional<net::TlsOptions> tls);
  ~EtcdConnection();

  const std::string& shown() const { return shown_; }  // the member, for messages

  // Whether it is open, as far as is known without a system call.
  bool is_open() const { return http2_ != nullptr; }

  // How often it was opened; calls end when the connection is closed.
  std::uint64_t times_opened() const { return times_opened_; }

  // Closes it if the server has closed it, or accepts no more calls on it.
  void drop_if_closed();

  // Resolves the name, connects and sets up TLS. Throws Failure: unreachable on a timeout
  // or if the peer does not speak the protocol, rejected for a certificate, interrupted.
  asio::awaitable<void> open(net::Budget& budget);

  // Sends all calls at once and returns when all have ended. The connection must be open.
  // Throws Failure like open().
  asio::awaitable<std::vector<CallReply>> exchange(
      const std::vector<grpc::CallStart>& calls, net::Budget& budget);

  // Begins a streaming call. Its messages also arrive while other calls are awaited. The
  // connection must be open.
  grpc::CallId begin(const grpc::CallStart& start);
  void drop(grpc::CallId call);

  // The next message of the call; nothing if it has ended or on a timeout, after which
  // the call continues. Throws Failure like open().
  asio::awaitable<std::optional<std::string>> next_message(grpc::CallId call,
                                                           net::Budget& budget);
  // How it ended; nothing while it has not.
  std::optional<grpc::CallOutcome> outcome(grpc::CallId call) const;

  void close();

 private:
  asio::awaitable<void> send_all(net::Budget& budget);
  void take_in(std::string_view bytes);
  CallReply reply_to(grpc::CallId call);
  Failure with_hint(const Failure& failure, const net::Budget& budget) const;
  void close_unless_harmless(const Failure& failure);

  asio::io_context& context_;
  ServerAddress server_;
  std::optional<net::TlsOptions> tls_;
  std::string shown_;
  std::unique_ptr<net::Stream> stream_;
  std::unique_ptr<grpc::Http2> http2_;
  std::optional<net::Endpoint> last_used_;
  std::uint64_t times_opened_ = 0;
  bool is_writing_ = false;   // the output was sent in part
  bool has_replied_ = false;  // the server has replied on this connection
};

}  // namespace dlock::etcd
