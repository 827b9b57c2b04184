#include "net/resolver.hpp"

#include <ares.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace dlock::net {
namespace {

// How long to wait for a name server before it, or the next one, is asked again: a part
// of the budget that allows for two silent servers before the one that replies. By
// default c-ares would give the first one more than an operation's budget.
constexpr milliseconds longest_try{400};
constexpr int tries_in_budget = 5;

// Enough to last for any budget, because each takes twice as long as the one before.
constexpr int tries = 8;

// How long IPv4 addresses wait for IPv6 ones (RFC 8305), if the budget allows it.
constexpr milliseconds resolution_delay{50};
constexpr int delays_in_budget = 8;

bool is_no_such_host(int status) {
  return status == ARES_SUCCESS || status == ARES_ENOTFOUND || status == ARES_ENODATA;
}

Failure failure_of_resolver(const Budget& budget, int status) {
  if (is_no_such_host(status)) return cannot_reach(budget.server(), "no such host");
  switch (status) {
    case ARES_EBADNAME:
      return Failure::misconfigured("cannot reach " + budget.server() +
                                    ": invalid host name");
    case ARES_ENOMEM:
      return Failure::exhausted("cannot reach " + budget.server() + ": out of memory");
    default:
      return cannot_reach(budget.server(), "cannot resolve the name: " +
                                               lower_first(ares_strerror(status)));
  }
}

class Lookup;

// The search for the addresses of a host.
struct Search {
  Lookup* lookup = nullptr;
  bool is_done = false;
  int status = ARES_SUCCESS;  // as c-ares has it
  Endpoints found;
  Clock::time_point found_at{};
};

// It makes progress only in proceed(), and in search() if it looks into /etc/hosts.
class Lookup {
 public:
  enum class In { hosts_file, name_servers };

  // `one_try`: how long to wait for a name server before it, or the next one, is asked
  // again; each time twice as long. `flags` are those of c-ares. Throws Failure
  // (exhausted).
  Lookup(asio::io_context& context, std::uint16_t port, In in, milliseconds one_try,
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
      throw Failure::exhausted("cannot resolve names: " +
                               lower_first(ares_strerror(status)));
    }
  }

  // Calls back for queries in progress, so all other members must still exist.
  ~Lookup() { ares_destroy(channel_); }

  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  // Begins to search for addresses of `family`. The results are put into `search`, which
  // must outlive this object.
  void search(const std::string& host, int family, Search& search) {
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

  // Notifies `wakeup` when has_news() becomes true.
  void ask(Wakeup& wakeup) {
    for (auto& [fd, socket] : sockets_) {
      if (socket.reads) socket.readiness.ask(Readiness::For::reading, wakeup);
      if (socket.writes) socket.readiness.ask(Readiness::For::writing, wakeup);
    }
  }

  bool has_news() const {
    return std::ranges::any_of(sockets_,
                               [](const auto& each) { return each.second.is_ready(); });
  }

  // When c-ares has to check its timeouts.
  Clock::time_point next_check() const {
    timeval left{};
    if (ares_timeout(channel_, nullptr, &left) == nullptr) {
      return Clock::time_point::max();
    }
    return Clock::now() + std::chrono::seconds(left.tv_sec) +
           std::chrono::microseconds(left.tv_usec);
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

  void end(Search& search, int status, ares_addrinfo* found) const {
    search.is_done = true;
    search.status = status;
    search.found_at = Clock::now();
    if (found == nullptr) return;
    for (auto* node = found->nodes; node != nullptr; node = node->ai_next) {
      add(*node, search.found);
    }
    ares_freeaddrinfo(found);
  }

  void add(const ares_addrinfo_node& node, Endpoints& endpoints) const {
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

  asio::io_context& context_;
  std::uint16_t port_;
  ares_channel channel_ = nullptr;
  std::map<int, Socket> sockets_;
};

// The queries for both families.
class Queries {
 public:
  Queries(asio::io_context& context, std::uint16_t port, milliseconds one_try, int flags,
          const std::string& host)
      : lookup_(context, port, Lookup::In::name_servers, one_try, flags) {
    lookup_.search(host, AF_INET6, searches_[0]);
    lookup_.search(host, AF_INET, searches_[1]);
  }

  Lookup& lookup() { return lookup_; }
  const Lookup& lookup() const { return lookup_; }
  bool is_done() const { return searches_[0].is_done && searches_[1].is_done; }

  // When the addresses found may be tried.
  Clock::time_point usable_from(Clock::duration delay) const {
    const auto& [ipv6, ipv4] = searches_;
    if (!ipv6.found.empty()) return ipv6.found_at;
    if (ipv4.found.empty()) return Clock::time_point::max();
    return ipv6.is_done ? ipv4.found_at : ipv4.found_at + delay;
  }

  // The families in turn.
  void move_to(Endpoints& endpoints) {
    auto& [ipv6, ipv4] = searches_;
    const auto most = std::max(ipv6.found.size(), ipv4.found.size());
    for (std::size_t i = 0; i < most; ++i) {
      if (i < ipv6.found.size()) endpoints.push_back(ipv6.found[i]);
      if (i < ipv4.found.size()) endpoints.push_back(ipv4.found[i]);
    }
    ipv6.found.clear();
    ipv4.found.clear();
  }

  // The one that says more than that there is no such host, if any.
  int status() const {
    const auto& [ipv6, ipv4] = searches_;
    return is_no_such_host(ipv4.status) ? ipv6.status : ipv4.status;
  }

 private:
  std::array<Search, 2> searches_;  // IPv6 and IPv4; the lookup uses them to its end
  Lookup lookup_;
};

}  // namespace

class Resolver::State {
 public:
  State(asio::io_context& context, std::string host, std::uint16_t port, Budget& budget)
      : context_(context), host_(std::move(host)), port_(port), budget_(budget) {
    const auto began = Clock::now();
    const auto span = std::max(budget.until() - began, Clock::duration::zero());
    one_try_ = std::clamp(std::chrono::floor<milliseconds>(span / tries_in_budget),
                          milliseconds(1), longest_try);
    delay_ = std::min<Clock::duration>(resolution_delay, span / delays_in_budget);
    // Not after a single lost datagram.
    second_from_ = began + 2 * one_try_;
    // A name in /etc/hosts has only the addresses given there.
    Search search;
    Lookup files(context, port, Lookup::In::hosts_file, one_try_, 0);
    files.search(host_, AF_UNSPEC, search);
    found_ = std::move(search.found);
    if (found_.empty()) first_.emplace(context, port, one_try_, 0, host_);
  }

  void proceed() {
    for (auto* queries : both()) {
      if (*queries) (*queries)->lookup().proceed();
    }
    if (!needs_second()) return;
    const bool has_dot = host_.find('.') != std::string::npos && host_.back() != '.';
    second_.emplace(context_, port_, one_try_, ARES_FLAG_IGNTC,
                    has_dot ? host_ + "." : host_);
  }

  Endpoints take() {
    for (auto* queries : both()) {
      if (*queries && (*queries)->usable_from(delay_) <= Clock::now()) {
        (*queries)->move_to(found_);
      }
    }
    has_found_ = has_found_ || !found_.empty();
    return std::exchange(found_, {});
  }

  bool is_done() const {
    return found_.empty() && is_over(first_) && is_over(second_) && !may_need_second();
  }

  void ask() {
    for (auto* queries : both()) {
      if (*queries) (*queries)->lookup().ask(budget_.wakeup());
    }
  }

  bool has_news() const {
    return (first_ && first_->lookup().has_news()) ||
           (second_ && second_->lookup().has_news());
  }

  Clock::time_point next_check() const {
    auto next = may_need_second() ? second_from_ : Clock::time_point::max();
    for (const auto* queries : {&first_, &second_}) {
      if (!*queries) continue;
      next = std::min(
          {next, (*queries)->lookup().next_check(), (*queries)->usable_from(delay_)});
    }
    return next;
  }

  Failure failure() const {
    return failure_of_resolver(budget_, first_ ? first_->status() : ARES_ENOTFOUND);
  }

 private:
  std::array<std::optional<Queries>*, 2> both() { return {&first_, &second_}; }

  static bool is_over(const std::optional<Queries>& queries) {
    return !queries ||
           (queries->is_done() && queries->usable_from({}) == Clock::time_point::max());
  }

  bool has_none() const {
    return !has_found_ && first_->usable_from({}) == Clock::time_point::max();
  }

  // Another way of asking is of no use where the name servers know no such host.
  bool may_need_second() const {
    return first_ && !second_ && has_none() &&
           !(first_->is_done() && is_no_such_host(first_->status()));
  }

  bool needs_second() const {
    return may_need_second() && (first_->is_done() || Clock::now() >= second_from_);
  }

  asio::io_context& context_;
  std::string host_;
  std::uint16_t port_;
  Budget& budget_;
  milliseconds one_try_{};
  Clock::duration delay_{};
  Clock::time_point second_from_;
  Endpoints found_;
  bool has_found_ = false;
  std::optional<Queries> first_;
  std::optional<Queries> second_;
};

Resolver::Resolver(asio::io_context& context, const std::string& host, std::uint16_t port,
                   Budget& budget)
    : state_(std::make_unique<State>(context, host, port, budget)) {}

Resolver::~Resolver() = default;

void Resolver::proceed() { state_->proceed(); }
Endpoints Resolver::take() { return state_->take(); }
bool Resolver::is_done() const { return state_->is_done(); }
void Resolver::ask() { state_->ask(); }
bool Resolver::has_news() const { return state_->has_news(); }
Clock::time_point Resolver::next_check() const { return state_->next_check(); }
Failure Resolver::failure() const { return state_->failure(); }

}  // namespace dlock::net
