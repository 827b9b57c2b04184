// Resolves host names.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
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

}  // namespace dlock::net
