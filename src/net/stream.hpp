// A connected socket to a server: bytes out and in, in the clear or encrypted.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/budget.hpp"
#include "net/progress.hpp"
#include "net/readiness.hpp"
#include "net/tls_options.hpp"
#include "util/fd.hpp"

namespace dlock::net {

class Tls;

// After a Failure it is good for nothing but to be destroyed.
class Stream {
 public:
  Stream(asio::io_context& context, Fd fd);
  ~Stream();

  // Encrypts what follows, with the server that the plan trusts under the name `host`.
  // Throws Failure, rejected for a certificate, before anything else was sent.
  asio::awaitable<void> secure(const TlsOptions& plan, const std::string& host,
                               Budget& budget);

  // Sends all of `bytes`. Throws Failure (unreachable, interrupted).
  asio::awaitable<void> write(std::string_view bytes, Budget& budget);

  // What has come, at least a byte; valid until the next call. Empty once the server has
  // closed the connection. `is_soon`: it should be on its way. Throws Failure
  // (unreachable, interrupted).
  asio::awaitable<std::string_view> read(Budget& budget, bool is_soon);

  // The same, but nothing when the time is over first, and no harm done; nor is any when
  // it was interrupted.
  asio::awaitable<std::optional<std::string_view>> read_until(Budget& budget);

  // The same, but nothing if nothing has come yet. `server` is for messages.
  std::optional<std::string_view> read_at_once(const std::string& server);

  // Whether nothing has come that nobody asked for, the end least of all.
  bool is_quiet();

  // Has the kernel drop what it has not sent yet when this is destroyed, which otherwise
  // it goes on to send.
  void abandon();

 private:
  Progress try_write(std::string_view bytes);
  Progress try_read(char* buffer, std::size_t size);
  asio::awaitable<bool> is_ready(Readiness::For what, Budget& budget);
  asio::awaitable<void> wait(Readiness::For what, Budget& budget);

  static constexpr std::size_t buffer_size = 16u << 10;

  asio::io_context& context_;
  Fd fd_;
  std::optional<Readiness> readiness_;  // after the socket, to be gone before it
  std::unique_ptr<Tls> tls_;
  std::unique_ptr<char[]> buffer_;
};

}  // namespace dlock::net
