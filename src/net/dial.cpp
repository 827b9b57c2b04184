#include "net/dial.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <utility>

#include "net/resolver.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock::net {
namespace {

// As in RFC 8305: longer than a connection takes nearly everywhere, and a small part of
// an operation's budget.
constexpr milliseconds longest_head_start{250};

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

// How long an attempt goes on alone, so that the last of `others` still has a good part
// of the budget.
Clock::duration head_start(Clock::duration left, std::size_t others) {
  return std::min<Clock::duration>(longest_head_start,
                                   left / (2 * (static_cast<int>(others) + 2)));
}

// A connection attempt in progress.
struct Attempt {
  Attempt(Fd made, const Endpoint& peer) : fd(std::move(made)), endpoint(peer) {}

  Fd fd;
  Endpoint endpoint;
  std::optional<Readiness>
      readiness;  // declared after the socket, to be destroyed before it

  bool is_ready() const { return readiness && readiness->came(Readiness::For::writing); }
};

// The attempts in progress and those still to come.
class Dialling {
 public:
  explicit Dialling(asio::io_context& context) : context_(context) {}

  void add(const Endpoints& endpoints) {
    for (const auto& endpoint : endpoints) {
      const bool is_known = std::ranges::any_of(endpoints_, [&](const Endpoint& known) {
        return known.size == endpoint.size &&
               std::memcmp(&known.storage, &endpoint.storage, known.size) == 0;
      });
      if (!is_known) endpoints_.push_back(endpoint);
    }
  }

  bool has_any() const { return !endpoints_.empty(); }
  std::size_t left() const { return endpoints_.size() - next_; }
  bool has_more() const { return left() > 0; }
  bool is_idle() const { return attempts_.empty(); }
  int last_error() const { return last_error_; }
  bool must_ask_again() const { return must_ask_again_; }

  // Starts the next attempt. Returns true if it succeeded at once.
  bool begin_next() {
    const Endpoint& endpoint = endpoints_[next_++];
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
      // Asio may report an event of a closed socket whose record this one has taken over.
      if (!attempt->is_ready() ||
          !is_ready_soon(attempt->fd.get(), Readiness::For::writing)) {
        ++attempt;
        continue;
      }
      last_error_ = error_of(attempt->fd.get());
      if (last_error_ == 0) {
        attempt->readiness.reset();
        return succeed(std::move(attempt->fd), attempt->endpoint);
      }
      attempt = attempts_.erase(attempt);
    }
    return false;
  }

  // Sleeps until an attempt or the resolver has news, at most until `moment`.
  asio::awaitable<void> wait(Budget& budget, Resolver* resolver,
                             Clock::time_point moment) {
    if (resolver != nullptr) {
      resolver->ask();
      moment = std::min(moment, resolver->next_check());
    }
    for (auto& attempt : attempts_) {
      if (!attempt.readiness) attempt.readiness.emplace(context_, attempt.fd.get());
      attempt.readiness->ask(Readiness::For::writing, budget.wakeup());
    }
    co_await budget.wait(
        [this, resolver] {
          return (resolver != nullptr && resolver->has_news()) ||
                 std::ranges::any_of(attempts_, [](const Attempt& attempt) {
                   return attempt.is_ready();
                 });
        },
        moment);
  }

  Fd take(Endpoint& used) {
    used = used_;
    return std::move(connected_);
  }

 private:
  bool succeed(Fd fd, const Endpoint& endpoint) {
    connected_ = std::move(fd);
    used_ = endpoint;
    return true;
  }

  asio::io_context& context_;
  Endpoints endpoints_;
  std::size_t next_ = 0;
  std::list<Attempt> attempts_;
  Fd connected_;
  Endpoint used_;
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
      throw Failure::rejected("cannot reach " + server + ": " + why);
    case ENOMEM:
    case ENOBUFS: throw Failure::exhausted("cannot reach " + server + ": " + why);
    default: break;
  }
  throw unreachable;
}

// What has ended without a connection, because nothing is left or the budget is over.
[[noreturn]] void give_up(const Dialling& dialling, const Resolver* resolver,
                          const Budget& budget, bool is_unix) {
  if (dialling.has_any() && dialling.is_idle()) {
    throw_failure(budget.server(), dialling.last_error(), is_unix);
  }
  if (dialling.has_any()) throw budget.timeout(budget.server());
  if (resolver->is_done()) throw resolver->failure();
  throw budget.timeout("the name server of " + budget.server());
}

// `spare`: an address to try from `spare_from` on if there is none by then.
asio::awaitable<Fd> dial(Dialling& dialling, Resolver* resolver,
                         std::optional<Endpoint> spare, Budget& budget, Endpoint& used,
                         bool is_unix) {
  const auto began = Clock::now();
  const auto spare_from =
      spare ? began + (budget.until() - began) / 2 : Clock::time_point::max();
  auto next_at = Clock::time_point::min();
  for (;;) {
    if (resolver != nullptr) {
      resolver->proceed();
      dialling.add(resolver->take());
      if (spare && !dialling.has_any() &&
          (resolver->is_done() || Clock::now() >= spare_from)) {
        dialling.add({*spare});
      }
    }
    if (dialling.has_more() && (dialling.is_idle() || Clock::now() >= next_at)) {
      if (dialling.begin_next()) co_return dialling.take(used);
      const auto now = Clock::now();
      next_at = now + (dialling.must_ask_again()
                           ? ask_again_after
                           : head_start(budget.until() - now, dialling.left()));
      if (dialling.is_idle() && !dialling.must_ask_again() && dialling.has_more())
        continue;
    }
    const bool may_find_more = resolver != nullptr && !resolver->is_done();
    if (dialling.is_idle() && !dialling.has_more() && !may_find_more) {
      give_up(dialling, resolver, budget, is_unix);
    }
    auto moment = dialling.has_more() ? next_at : Clock::time_point::max();
    if (!dialling.has_any()) moment = std::min(moment, spare_from);
    co_await dialling.wait(budget, may_find_more ? resolver : nullptr, moment);
    if (dialling.look()) co_return dialling.take(used);
    if (budget.is_over()) give_up(dialling, resolver, budget, is_unix);
  }
}

template <typename Specific>
Endpoint endpoint_of(const Specific& specific) {
  static_assert(sizeof specific <= sizeof(sockaddr_storage));
  Endpoint endpoint;
  std::memcpy(&endpoint.storage, &specific, sizeof specific);
  endpoint.size = sizeof specific;
  return endpoint;
}

// The interface that a link-local address belongs to, by its name or number; 0 if there
// is none.
std::uint32_t scope_of(const std::string& zone) {
  const auto number = number_in<std::uint32_t>(zone);
  return number ? *number : ::if_nametoindex(zone.c_str());
}

}  // namespace

asio::awaitable<Fd> dial(asio::io_context& context, const Endpoints& endpoints,
                         Budget& budget, Endpoint& used) {
  Dialling dialling(context);
  dialling.add(endpoints);
  const bool is_unix = endpoints.front().is_unix();
  co_return co_await dial(dialling, nullptr, std::nullopt, budget, used, is_unix);
}

asio::awaitable<Fd> dial(asio::io_context& context, const std::string& host,
                         std::uint16_t port, Budget& budget,
                         std::optional<Endpoint>& last_used) {
  Endpoint used;
  Fd fd;
  if (const auto literal = endpoint_of_literal(host, port)) {
    const Endpoints endpoints{*literal};
    fd = co_await dial(context, endpoints, budget, used);
  } else {
    Dialling dialling(context);
    Resolver resolver(context, host, port, budget);
    fd = co_await dial(dialling, &resolver, last_used, budget, used, false);
  }
  last_used = used;
  co_return fd;
}

Endpoint endpoint_of_path(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw Failure::misconfigured("the path of a socket can have at most 107 bytes: " +
                                 printable(path, 200));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return endpoint_of(address);
}

std::string literal_of(const Endpoint& endpoint) {
  char text[INET6_ADDRSTRLEN] = "";
  if (endpoint.storage.ss_family == AF_INET) {
    sockaddr_in address{};
    std::memcpy(&address, &endpoint.storage, sizeof address);
    ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  } else if (endpoint.storage.ss_family == AF_INET6) {
    sockaddr_in6 address{};
    std::memcpy(&address, &endpoint.storage, sizeof address);
    ::inet_ntop(AF_INET6, &address.sin6_addr, text, sizeof text);
    const auto zone = address.sin6_scope_id;
    if (zone != 0) return text + ("%" + std::to_string(zone));
  }
  return text;
}

std::optional<Endpoint> endpoint_of_literal(const std::string& host, std::uint16_t port) {
  sockaddr_in v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    return endpoint_of(v4);
  }
  sockaddr_in6 v6{};
  const auto percent = host.find('%');
  if (::inet_pton(AF_INET6, host.substr(0, percent).c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    if (percent != std::string::npos) {
      v6.sin6_scope_id = scope_of(host.substr(percent + 1));
    }
    return endpoint_of(v6);
  }
  return std::nullopt;
}

}  // namespace dlock::net
