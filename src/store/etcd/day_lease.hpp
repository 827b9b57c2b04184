// The etcd lease of the history: all runs that ended on the same day share one.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>

#include "store/etcd/calls.hpp"

namespace dlock::etcd {

class DayLease {
 public:
  // `calls` must outlive this.
  DayLease(Calls& calls, std::string name_space);

  // The lease of today, which may not exist yet.
  std::int64_t id() const;

  // Creates it if it does not exist; true if it did not.
  asio::awaitable<bool> set_up(Clock::time_point until, Wakeup& wakeup);

 private:
  Calls& calls_;
  std::string name_space_;
};

}  // namespace dlock::etcd
