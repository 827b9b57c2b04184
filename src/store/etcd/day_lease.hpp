// The lease of what is kept of runs that are over. All that ended on a day share one.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>

#include "store/etcd/calls.hpp"

namespace dlock::etcd {

class DayLease {
 public:
  // `calls` has to be there for longer.
  DayLease(Calls& calls, std::string name_space);

  // The one of today, which may not be there yet.
  std::int64_t id() const;

  // Sees to it that it is there. Whether it was not.
  asio::awaitable<bool> set_up(Clock::time_point until, Wakeup& wakeup);

 private:
  Calls& calls_;
  std::string name_space_;
};

}  // namespace dlock::etcd
