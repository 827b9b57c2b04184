#include "net/stream.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "net/tls.hpp"

namespace dlock::net {
namespace {

Failure lost(const std::string& server, int error_number) {
  return Failure::unreachable("lost the connection to " + server + ": " +
                              reason_of(error_number));
}

Timeout no_handshake(const Timeout& timeout) {
  if (timeout.is_slow()) return timeout;
  return Timeout(std::string(timeout.what()) + " in the TLS handshake; does it use TLS?");
}

// The result of a system call on the socket.
Progress progress_of(ssize_t result, Progress::State if_not_ready) {
  if (result >= 0) return {Progress::State::done, static_cast<std::size_t>(result)};
  if (errno == EAGAIN || errno == EINTR) return {if_not_ready};
  return {Progress::State::failed, 0, errno};
}

}  // namespace

Stream::Stream(asio::io_context& context, Fd fd)
    : context_(context), fd_(std::move(fd)), buffer_(new char[buffer_size]) {}

Stream::~Stream() = default;

void Stream::abandon() {
  const linger at_once{1, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

asio::awaitable<void> Stream::secure(const TlsOptions& plan, const std::string& host,
                                     Budget& budget) {
  auto tls = std::make_unique<Tls>(plan, host, fd_.get(), budget.server());
  for (;;) {
    const auto progress = tls->handshake();
    if (progress.state == Progress::State::done) break;
    if (progress.state == Progress::State::failed) {
      throw Refusal(Refusal::Reason::overloaded,
                    "lost the connection to " + budget.server() +
                        " during the TLS handshake: " + reason_of(progress.error));
    }
    // A server without TLS may take this for part of a request and wait for the rest.
    const bool ready = co_await is_ready(progress.awaited(), budget);
    if (!ready) throw no_handshake(budget.timeout(budget.server()));
  }
  tls_ = std::move(tls);
  budget.reached("TLS");
}

std::optional<TlsPeer> Stream::tls_peer() const {
  if (!tls_) return std::nullopt;
  return tls_->peer();
}

std::string Stream::distrust(const TlsOptions& plan) const {
  return tls_ ? tls_->distrust(plan) : "not encrypted";
}

void Stream::limit_silence(milliseconds longest) {
  const auto set = [this](int option, int value) {
    ::setsockopt(fd_.get(), IPPROTO_TCP, option, &value, sizeof value);
  };
  constexpr int seconds_between_probes = 10;
  constexpr int probes = 3;
  set(TCP_KEEPINTVL, seconds_between_probes);
  set(TCP_KEEPCNT, probes);
  if (longest.count() > 0) set(TCP_USER_TIMEOUT, static_cast<int>(longest.count()));
}

asio::awaitable<void> Stream::write(std::string_view bytes, Budget& budget) {
  while (!bytes.empty()) {
    const auto progress = try_write(bytes);
    if (progress.state == Progress::State::failed) {
      throw lost(budget.server(), progress.error);
    }
    bytes.remove_prefix(progress.size);
    if (progress.state != Progress::State::done) {
      co_await wait(progress.awaited(), budget);
    }
  }
}

asio::awaitable<std::string_view> Stream::read(Budget& budget, bool is_soon) {
  // Most likely there is no answer yet: it takes longer than getting here.
  if (is_soon && !tls_) is_ready_soon(fd_.get(), Readiness::For::reading);
  const auto bytes = co_await read_until(budget);
  if (!bytes) throw budget.timeout(budget.server());
  co_return *bytes;
}

asio::awaitable<std::optional<std::string_view>> Stream::read_until(Budget& budget) {
  for (;;) {
    const auto progress = try_read(buffer_.get(), buffer_size);
    if (progress.state == Progress::State::done) {
      co_return std::string_view(buffer_.get(), progress.size);
    }
    if (progress.state == Progress::State::failed) {
      throw lost(budget.server(), progress.error);
    }
    const bool ready = co_await is_ready(progress.awaited(), budget);
    if (!ready) co_return std::nullopt;
  }
}

std::optional<std::string_view> Stream::read_at_once(const std::string& server) {
  const auto progress = try_read(buffer_.get(), buffer_size);
  if (progress.state == Progress::State::failed) throw lost(server, progress.error);
  if (progress.state != Progress::State::done) return std::nullopt;
  return std::string_view(buffer_.get(), progress.size);
}

std::size_t Stream::write_at_once(std::string_view bytes) {
  std::size_t sent = 0;
  try {
    // With TLS a write takes no more than one record.
    while (sent < bytes.size()) {
      const auto progress = try_write(bytes.substr(sent));
      if (progress.state != Progress::State::done) break;
      sent += progress.size;
    }
  } catch (const Failure&) {
    // The connection is about to end.
  }
  return sent;
}

bool Stream::is_quiet() {
  if (tls_) return tls_->is_quiet();
  char byte = 0;
  return ::recv(fd_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
         (errno == EAGAIN || errno == EINTR);
}

Progress Stream::try_write(std::string_view bytes) {
  if (tls_) return tls_->write(bytes);
  return progress_of(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
                     Progress::State::wants_to_write);
}

Progress Stream::try_read(char* buffer, std::size_t size) {
  if (tls_) return tls_->read(buffer, size);
  return progress_of(::recv(fd_.get(), buffer, size, 0), Progress::State::wants_to_read);
}

asio::awaitable<bool> Stream::is_ready(Readiness::For what, Budget& budget) {
  if (!readiness_) readiness_.emplace(context_, fd_.get());
  // The next waiter may be another one, and this one may be destroyed by then.
  const Readiness::Question question(*readiness_, what, budget.wakeup());
  const bool came = co_await budget.wait([this, what] { return readiness_->came(what); });
  co_return came;
}

asio::awaitable<void> Stream::wait(Readiness::For what, Budget& budget) {
  const bool ready = co_await is_ready(what, budget);
  if (!ready) throw budget.timeout(budget.server());
}

asio::awaitable<std::unique_ptr<Stream>> open_stream(asio::io_context& context,
                                                     const Peer& peer, Budget& budget,
                                                     std::optional<Endpoint>& last_used) {
  Fd fd;
  if (peer.path.empty()) {
    fd = co_await dial(context, peer.host, peer.port, budget, last_used);
  } else {
    const Endpoints endpoints{endpoint_of_path(peer.path)};
    Endpoint used;
    fd = co_await dial(context, endpoints, budget, used);
  }
  auto stream = std::make_unique<Stream>(context, std::move(fd));
  budget.reached("connected");
  if (peer.tls) {
    const auto& name = peer.tls->name.empty() ? peer.host : peer.tls->name;
    co_await stream->secure(*peer.tls, name, budget);
  }
  co_return stream;
}

}  // namespace dlock::net
