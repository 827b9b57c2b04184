#include "net/dial.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <optional>
#include <utility>

#include "net/messages.hpp"
#include "net/readiness.hpp"
#include "net/refusal.hpp"

namespace dlock::net {
namespace {

// As in RFC 8305: longer than a connection takes nearly everywhere, and a small part of
// an operation's budget.
constexpr milliseconds head_start{250};

// A unix socket with a full queue cannot be waited for; connecting has to be tried again.
constexpr milliseconds ask_again_after{5};

void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

Fd new_socket(const Endpoint& endpoint) {
  Fd fd(::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                 0));
  if (fd && !endpoint.is_unix()) {
    // Each command is one write whose reply is awaited, so delaying it gains nothing.
    set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
    // Keep-alive, so that firewalls do not drop connections on which a waiter only
    // listens.
    constexpr int idle_seconds = 30;
    set_option(fd.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE, idle_seconds);
  }
  return fd;
}

int error_of(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

// A connection attempt in progress.
struct Attempt {
  Attempt(Fd made, const Endpoint& peer) : fd(std::move(made)), endpoint(&peer) {}

  Fd fd;
  const Endpoint* endpoint;
  std::optional<Readiness>
      readiness;  // declared after the socket, to be destroyed before it

  bool is_ready() const { return readiness && readiness->came(Readiness::For::writing); }
};

// The attempts in progress and those still to come.
class Dialling {
 public:
  Dialling(asio::io_context& context, const Endpoints& endpoints)
      : context_(context), next_(endpoints.begin()), end_(endpoints.end()) {}

  bool has_more() const { return next_ != end_; }
  bool is_idle() const { return attempts_.empty(); }
  int last_error() const { return last_error_; }
  bool must_ask_again() const { return must_ask_again_; }

  // Starts the next attempt. Returns true if it succeeded at once.
  bool begin_next() {
    const Endpoint& endpoint = *next_++;
    must_ask_again_ = false;
    Fd fd = new_socket(endpoint);
    // The machine may support only one address family; any other error is not specific to
    // the address.
    if (!fd && errno != EAFNOSUPPORT) throw failure_of(errno, "cannot create a socket");
    if (fd && ::connect(fd.get(), endpoint.generic(), endpoint.size) == 0) {
      return succeed(std::move(fd), endpoint);
    }
    last_error_ = errno;
    if (last_error_ == EAGAIN && endpoint.is_unix()) {
      --next_;
      must_ask_again_ = true;
    }
    if (last_error_ != EINPROGRESS) return false;
    if (is_ready_soon(fd.get(), Readiness::For::writing)) {
      last_error_ = error_of(fd.get());
      return last_error_ == 0 && succeed(std::move(fd), endpoint);
    }
    attempts_.emplace_back(std::move(fd), endpoint);
    return false;
  }

  // Checks the attempts that have an event. Returns true if one succeeded.
  bool look() {
    for (auto attempt = attempts_.begin(); attempt != attempts_.end();) {
      if (!attempt->is_ready()) {
        ++attempt;
        continue;
      }
      last_error_ = error_of(attempt->fd.get());
      if (last_error_ == 0) {
        attempt->readiness.reset();
        return succeed(std::move(attempt->fd), *attempt->endpoint);
      }
      attempt = attempts_.erase(attempt);
    }
    return false;
  }

  asio::awaitable<void> wait(Budget& budget, Clock::time_point moment) {
    for (auto& attempt : attempts_) {
      if (!attempt.readiness) attempt.readiness.emplace(context_, attempt.fd.get());
      attempt.readiness->ask(Readiness::For::writing, budget.wakeup());
    }
    co_await budget.wait(
        [this] {
          return std::any_of(attempts_.begin(), attempts_.end(),
                             [](const Attempt& attempt) { return attempt.is_ready(); });
        },
        moment);
  }

  Fd take(Endpoint& used) {
    used = *used_;
    return std::move(connected_);
  }

 private:
  bool succeed(Fd fd, const Endpoint& endpoint) {
    connected_ = std::move(fd);
    used_ = &endpoint;
    return true;
  }

  asio::io_context& context_;
  Endpoints::const_iterator next_;
  Endpoints::const_iterator end_;
  std::list<Attempt> attempts_;
  Fd connected_;
  const Endpoint* used_ = nullptr;
  int last_error_ = 0;
  bool must_ask_again_ = false;
};

[[noreturn]] void throw_failure(const std::string& server, int error_number,
                                bool is_unix) {
  const auto why = reason_of(error_number);
  const auto unreachable = cannot_reach(server, why);
  switch (error_number) {
    case ECONNREFUSED: throw Refusal(Refusal::Reason::absent, unreachable.what());
    case ECONNRESET: throw Refusal(Refusal::Reason::overloaded, unreachable.what());
    case ENOENT:
      // A server removes its socket when it ends, and creates it when it starts.
      if (!is_unix) break;
      throw Refusal(Refusal::Reason::absent, unreachable.what());
    case EACCES:
    case EPERM:
      // On a network this error comes from a firewall, and may be temporary.
      if (!is_unix) break;
      throw Failure(Failure::Kind::rejected, "cannot reach " + server + ": " + why);
    case ENOMEM:
    case ENOBUFS:
      throw Failure(Failure::Kind::exhausted, "cannot reach " + server + ": " + why);
    default: break;
  }
  throw unreachable;
}

}  // namespace

asio::awaitable<Fd> dial(asio::io_context& context, const Endpoints& endpoints,
                         Budget& budget, Endpoint& used) {
  Dialling dialling(context, endpoints);
  auto next_at = Clock::time_point::min();
  for (;;) {
    if (dialling.has_more() && (dialling.is_idle() || Clock::now() >= next_at)) {
      if (dialling.begin_next()) co_return dialling.take(used);
      next_at = Clock::now() + (dialling.must_ask_again() ? ask_again_after : head_start);
      if (dialling.is_idle() && !dialling.must_ask_again() && dialling.has_more())
        continue;
    }
    if (dialling.is_idle() && !dialling.has_more()) {
      throw_failure(budget.server(), dialling.last_error(), endpoints.front().is_unix());
    }
    co_await dialling.wait(budget,
                           dialling.has_more() ? next_at : Clock::time_point::max());
    if (dialling.look()) co_return dialling.take(used);
    if (budget.is_over()) throw budget.timeout(budget.server());
  }
}

}  // namespace dlock::net
