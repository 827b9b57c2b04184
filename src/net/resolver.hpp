// Resolves host names.
#pragma once

#include <ares.h>

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "loop/wakeup.hpp"
#include "net/budget.hpp"
#include "net/dial.hpp"
#include "util/clock.hpp"

namespace dlock::net {

// The search for the addresses of one host in /etc/hosts, or else at the name servers.
// Its results can be used as they come: IPv6 first, but IPv4 alone if IPv6 is missing or
// its answer takes much longer (RFC 8305). If the search is silent, it is repeated in a
// way that depends on less: without search domains for a name with a dot, and with what
// fits into one datagram. A name from another search domain is not used instead, because
// it is the name of another server.
class Resolver {
 public:
  // Begins the search. Throws Failure (exhausted).
  Resolver(asio::io_context& context, const std::string& host, std::uint16_t port,
           Budget& budget);
  ~Resolver();

  // Reads the answers that have arrived. Does not wait.
  void proceed();

  // The addresses to try, found since the last call, in order.
  Endpoints take();

  // Whether no more addresses will be found.
  bool is_done() const;

  // Notifies the budget's wakeup when has_news() becomes true.
  void ask();
  bool has_news() const;

  // When proceed() is due even without news.
  Clock::time_point next_check() const;

  // Why nothing was found; to be called when it is done.
  Failure failure() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

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
         int flags);
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  // Begins to search for addresses of `family`. The results are put into `search`, which
  // must outlive this object.
  void search(const std::string& host, int family, Search& search);

  // Lets c-ares read answers and check its timeouts.
  void proceed();

  // Notifies `wakeup` when has_news() becomes true.
  void ask(Wakeup& wakeup);
  bool has_news() const;

  // When c-ares has to check its timeouts.
  Clock::time_point next_check() const;

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

  void use_socket(int fd, bool reads, bool writes);
  void end(Search& search, int status, ares_addrinfo* found) const;
  void add(const ares_addrinfo_node& node, Endpoints& endpoints) const;

  asio::io_context& context_;
  std::uint16_t port_;
  ares_channel channel_ = nullptr;
  std::map<int, Socket> sockets_;
};

}  // namespace dlock::net
