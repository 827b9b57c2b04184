#include "net/name_lookup.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "net/net_failures.hpp"

namespace dlock::net {
namespace {

// Enough to last for any budget, because each takes twice as long as the one before.
constexpr int tries = 8;

}  // namespace

Lookup::Lookup(asio::io_context& context, std::uint16_t port, In in, milliseconds one_try,
               int flags)
    : context_(context), port_(port) {
  std::string lookups = in == In::hosts_file ? "f" : "b";
  ares_options options{};
  options.flags = flags;
  options.timeout = static_cast<int>(one_try.count());
  options.tries = tries;
  options.lookups = lookups.data();
  options.sock_state_cb = [](void* self, ares_socket_t fd, int reads, int writes) {
    static_cast<Lookup*>(self)->use_socket(fd, reads != 0, writes != 0);
  };
  options.sock_state_cb_data = this;
  const int status =
      ares_init_options(&channel_, &options,
                        ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
                            ARES_OPT_SOCK_STATE_CB | (flags == 0 ? 0 : ARES_OPT_FLAGS));
  if (status != ARES_SUCCESS) {
    throw Failure(Failure::Kind::exhausted,
                  "cannot resolve names: " + lower_first(ares_strerror(status)));
  }
}

// Calls back for queries in progress, so all other members must still exist.
Lookup::~Lookup() { ares_destroy(channel_); }

void Lookup::search(const std::string& host, int family, Search& search) {
  search.lookup = this;
  ares_addrinfo_hints hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  ares_getaddrinfo(
      channel_, host.c_str(), nullptr, &hints,
      [](void* one, int status, int, ares_addrinfo* found) {
        auto& ended = *static_cast<Search*>(one);
        ended.lookup->end(ended, status, found);
      },
      &search);
}

void Lookup::proceed() {
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

void Lookup::ask(Wakeup& wakeup) {
  for (auto& [fd, socket] : sockets_) {
    if (socket.reads) socket.readiness.ask(Readiness::For::reading, wakeup);
    if (socket.writes) socket.readiness.ask(Readiness::For::writing, wakeup);
  }
}

bool Lookup::has_news() const {
  return std::any_of(sockets_.begin(), sockets_.end(),
                     [](const auto& each) { return each.second.is_ready(); });
}

Clock::time_point Lookup::next_check() const {
  timeval left{};
  if (ares_timeout(channel_, nullptr, &left) == nullptr) {
    return Clock::time_point::max();
  }
  return Clock::now() + std::chrono::seconds(left.tv_sec) +
         std::chrono::microseconds(left.tv_usec);
}

void Lookup::use_socket(int fd, bool reads, bool writes) {
  if (!reads && !writes) {
    sockets_.erase(fd);  // about to be closed
    return;
  }
  auto& socket = sockets_.try_emplace(fd, context_, fd).first->second;
  socket.reads = reads;
  socket.writes = writes;
}

void Lookup::end(Search& search, int status, ares_addrinfo* found) const {
  search.is_done = true;
  search.status = status;
  search.found_at = Clock::now();
  if (found == nullptr) return;
  for (auto* node = found->nodes; node != nullptr; node = node->ai_next) {
    add(*node, search.found);
  }
  ares_freeaddrinfo(found);
}

void Lookup::add(const ares_addrinfo_node& node, Endpoints& endpoints) const {
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
  endpoints.push_back(endpoint);
}

}  // namespace dlock::net
