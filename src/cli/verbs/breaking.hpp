#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <string>
#include <vector>

#include "cli/args/options.hpp"
#include "cli/run/verb_store.hpp"
#include "cli/terminal/speaker.hpp"
#include "lock/lease.hpp"
#include "lock/store.hpp"
#include "loop/wakeup.hpp"
#include "util/clock.hpp"

namespace dlock {

// Describes a holder that is to lose the lock, and what happens to it.
std::string described_for_break(const HolderInfo& holder);

class Breaking {
 public:
  // From the holders in `info`: one that is granted the lock later is not meant.
  Breaking(asio::io_context& context, Store& store, const LockInfo& info, bool by_force,
           const CommonOptions& common);

  // Tells them. They are those in taken() then.
  asio::awaitable<void> take();
  // Waits until they have released it.
  asio::awaitable<void> wait();

  const std::vector<HolderInfo>& taken() const { return taken_; }
  const LockName& lock() const { return lock_; }
  const Speaker& speaker() const { return speaker_; }

 private:
  asio::awaitable<std::vector<HolderInfo>> left_of(const std::vector<Fence>& fences);
  asio::awaitable<std::vector<Broken>> tell(const std::vector<Fence>& fences);
  void warn_of_long_wait(const HolderInfo& holder);

  Wakeup wakeup_;
  Store& store_;
  LockName lock_;
  std::vector<Fence> fences_;
  bool by_force_;
  Speaker speaker_;
  std::vector<HolderInfo> taken_;
  Clock::time_point began_ = Clock::now();
  OrphanedRuns orphans_;
  bool warned_ = false;
};

}  // namespace dlock
