#include "net/resolver.hpp"

#include <ares.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "net/messages.hpp"
#include "net/readiness.hpp"

namespace dlock::net {
namespace {

// How long to wait for a name server before it, or the next one, is asked again. By
// default c-ares would give the first one more than an operation's budget.
constexpr int first_try_ms = 400;
constexpr int tries = 4;

// One query to the name servers or /etc/hosts. It makes progress only in proceed().
class Query {
 public:
  Query(asio::io_context& context, std::uint16_t port) : context_(context), port_(port) {
    ares_options options{};
    options.timeout = first_try_ms;
    options.tries = tries;
    options.sock_state_cb = [](void* self, ares_socket_t fd, int reads, int writes) {
      static_cast<Query*>(self)->use_socket(fd, reads != 0, writes != 0);
    };
    options.sock_state_cb_data = this;
    const int status =
        ares_init_options(&channel_, &options,
                          ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB);
    if (status != ARES_SUCCESS) {
      throw Failure(Failure::Kind::exhausted,
                    "cannot resolve names: " + with_small_letter(ares_strerror(status)));
    }
  }
  // Calls back for queries in progress, so all other members must still exist.
  ~Query() { ares_destroy(channel_); }
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  void ask(const std::string& host) {
    ares_addrinfo_hints hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    ares_getaddrinfo(
        channel_, host.c_str(), nullptr, &hints,
        [](void* self, int status, int, ares_addrinfo* found) {
          static_cast<Query*>(self)->end(status, found);
        },
        this);
  }

  bool is_done() const { return done_; }
  int status() const { return status_; }
  Endpoints take() { return std::move(endpoints_); }

  // Sleeps until an answer arrives or c-ares has to check its timeouts, at most until
  // `moment`.
  asio::awaitable<void> wait(Budget& budget, Clock::time_point moment) {
    for (auto& [fd, socket] : sockets_) {
      if (socket.reads) socket.readiness.ask(Readiness::For::reading, budget.wakeup());
      if (socket.writes) socket.readiness.ask(Readiness::For::writing, budget.wakeup());
    }
    timeval left{};
    if (ares_timeout(channel_, nullptr, &left) != nullptr) {
      moment = std::min(moment, Clock::now() + std::chrono::seconds(left.tv_sec) +
                                    std::chrono::microseconds(left.tv_usec));
    }
    co_await budget.wait(
        [this] {
          return std::any_of(sockets_.begin(), sockets_.end(),
                             [](const auto& each) { return each.second.is_ready(); });
        },
        moment);
  }

  // Lets c-ares read answers and check its timeouts.
  void proceed() {
    std::vector<std::pair<int, int>>
        ready;  // a copy: c-ares opens and closes sockets meanwhile
    for (const auto& [fd, socket] : sockets_) {
      if (socket.is_ready()) {
        ready.emplace_back(socket.came(Readiness::For::reading) ? fd : ARES_SOCKET_BAD,
                           socket.came(Readiness::For::writing) ? fd : ARES_SOCKET_BAD);
      }
    }
    for (const auto& [reading, writing] : ready) {
      ares_process_fd(channel_, reading, writing);
    }
    ares_process_fd(channel_, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
  }

 private:
  struct Socket {
    Socket(asio::io_context& context, int fd) : readiness(context, fd) {}

    bool came(Readiness::For what) const { return readiness.came(what); }
    bool is_ready() const {
      return (reads && came(Readiness::For::reading)) ||
             (writes && came(Readiness::For::writing));
    }

    Readiness readiness;
    bool reads = false;
    bool writes = false;
  };

  void use_socket(int fd, bool reads, bool writes) {
    if (!reads && !writes) {
      sockets_.erase(fd);  // about to be closed
      return;
    }
    auto& socket = sockets_.try_emplace(fd, context_, fd).first->second;
    socket.reads = reads;
    socket.writes = writes;
  }

  void end(int status, ares_addrinfo* found) {
    done_ = true;
    status_ = status;
    if (found == nullptr) return;
    for (auto* node = found->nodes; node != nullptr; node = node->ai_next) add(*node);
    ares_freeaddrinfo(found);
  }

  void add(const ares_addrinfo_node& node) {
    Endpoint endpoint;
    if (node.ai_addrlen > sizeof endpoint.storage) return;
    std::memcpy(&endpoint.storage, node.ai_addr, node.ai_addrlen);
    endpoint.size = node.ai_addrlen;
    // The port is at the same offset in both. c-ares does not get our port, because it
    // would look it up among the services.
    static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
    const auto port = htons(port_);
    std::memcpy(static_cast<char*>(static_cast<void*>(&endpoint.storage)) +
                    offsetof(sockaddr_in, sin_port),
                &port, sizeof port);
    endpoints_.push_back(endpoint);
  }

  asio::io_context& context_;
  std::uint16_t port_;
  ares_channel channel_ = nullptr;
  std::map<int, Socket> sockets_;
  bool done_ = false;
  int status_ = ARES_SUCCESS;
  Endpoints endpoints_;
};

Failure failure_of_resolver(const Budget& budget, int status) {
  switch (status) {
    case ARES_ENOTFOUND:
    case ARES_ENODATA: return cannot_reach(budget.server(), "no such host");
    case ARES_EBADNAME:
      return Failure(Failure::Kind::misconfigured,
                     "cannot reach " + budget.server() + ": invalid host name");
    case ARES_ENOMEM:
      return Failure(Failure::Kind::exhausted,
                     "cannot reach " + budget.server() + ": out of memory");
    default:
      return cannot_reach(budget.server(), "cannot resolve the name: " +
                                               with_small_letter(ares_strerror(status)));
  }
}

}  // namespace

asio::awaitable<Endpoints> resolve(asio::io_context& context, const std::string& host,
                                   std::uint16_t port,
                                   const std::optional<Endpoint>& known, Budget& budget) {
  Query query(context, port);
  query.ask(host);
  const auto now = Clock::now();
  const auto end = known ? now + (budget.until() - now) / 2 : budget.until();
  while (!query.is_done() && Clock::now() < end) {
    co_await query.wait(budget, end);
    query.proceed();
  }
  if (query.is_done() && query.status() == ARES_SUCCESS) {
    auto endpoints = query.take();
    if (!endpoints.empty()) co_return endpoints;
  }
  if (known) co_return Endpoints{*known};
  if (!query.is_done()) throw budget.timeout("the name server of " + budget.server());
  throw failure_of_resolver(
      budget, query.status() == ARES_SUCCESS ? ARES_ENODATA : query.status());
}

}  // namespace dlock::net
