// A connected socket to a server, in plain text or encrypted.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/budget.hpp"
#include "net/dial.hpp"
#include "net/tls_context.hpp"
#include "util/fd.hpp"

namespace dlock::net {

class Tls;

// A server to connect to.
struct Peer {
  std::string host;  // a name or an address
  std::uint16_t port = 0;
  std::string path;               // of a unix socket; empty over TCP
  std::optional<TlsOptions> tls;  // nothing: in plain text
};

// After a Failure the object can only be destroyed.
class Stream {
 public:
  Stream(asio::io_context& context, Fd fd);
  ~Stream();

  // Encrypts the connection from now on. The server must be one that the plan trusts
  // under the name `host`. Throws Failure before anything else is sent; `rejected` if the
  // certificate is not accepted.
  asio::awaitable<void> secure(const TlsOptions& plan, const std::string& host,
                               Budget& budget);

  // What secure() has found out about the server; nothing in plain text.
  std::optional<TlsPeer> tls_peer() const;

  // Why the certificate that secure() with this plan has met is not trusted; empty if it
  // is. Verifies it now if the plan says later, which takes as long as loading the
  // authorities. Throws Failure (misconfigured) for files of the plan.
  std::string distrust(const TlsOptions& plan) const;

  // Makes the kernel end a TCP connection with an error if the other side leaves data
  // unanswered for `longest`, or three probes of an idle connection.
  void limit_silence(milliseconds longest);

  // Sends all of `bytes`. Throws Failure (unreachable, interrupted).
  asio::awaitable<void> write(std::string_view bytes, Budget& budget);

  // Returns the next bytes, at least one; valid until the next call. Empty once the
  // server has closed the connection. `is_soon`: whether a reply should be on its way.
  // Throws Failure (unreachable, interrupted).
  asio::awaitable<std::string_view> read(Budget& budget, bool is_soon);

  // The same, but returns nothing if the time runs out first. The stream then stays
  // usable, even after an interruption.
  asio::awaitable<std::optional<std::string_view>> read_until(Budget& budget);

  // The same, but returns nothing if no bytes are available. `server` is for messages.
  std::optional<std::string_view> read_at_once(const std::string& server);

  // Sends what the kernel takes at once, and returns how many bytes that was. Ignores
  // failures, which the next read finds. Send the rest before anything else.
  std::size_t write_at_once(std::string_view bytes);

  // Whether bytes have come, or will within a millisecond.
  bool has_input_soon() const {
    return is_ready_soon(fd_.get(), Readiness::For::reading);
  }

  // Whether there is neither unexpected input nor the end of the connection.
  bool is_quiet();

  // Makes the kernel discard unsent data when this object is destroyed; otherwise it
  // would still send it.
  void abandon();

 private:
  Progress try_write(std::string_view bytes);
  Progress try_read(char* buffer, std::size_t size);
  asio::awaitable<bool> is_ready(Readiness::For what, Budget& budget);
  asio::awaitable<void> wait(Readiness::For what, Budget& budget);

  static constexpr std::size_t buffer_size = 16u << 10;

  asio::io_context& context_;
  Fd fd_;
  std::optional<Readiness>
      readiness_;  // declared after the socket, to be destroyed before it
  std::unique_ptr<Tls> tls_;
  std::unique_ptr<char[]> buffer_;
};

// Connects to `peer`, in the way of dial(), and encrypts the connection if it is to be.
// Throws Failure like dial() and Stream::secure().
asio::awaitable<std::unique_ptr<Stream>> open_stream(asio::io_context& context,
                                                     const Peer& peer, Budget& budget,
                                                     std::optional<Endpoint>& last_used);

}  // namespace dlock::net
