// Descriptors that turn what happens to processes and files into notifications.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <set>
#include <string>

#include "lock/wakeup.hpp"
#include "util/readable.hpp"

namespace dlock::local {

// Notifies `wakeup` when one of a set of processes ends.
class ProcessWatcher {
 public:
  ProcessWatcher(asio::io_context& context, Wakeup& wakeup)
      : context_(context), wakeup_(wakeup) {}

  // Watches these and no others from here on. Those that cannot be watched, for they
  // are gone already, are returned.
  std::set<pid_t> watch_only(const std::set<pid_t>& processes);

 private:
  asio::io_context& context_;
  Wakeup& wakeup_;
  std::map<pid_t, Readable> watched_;
};

// Calls back when something happens to files (inotify(7)). Throws Failure where the
// user has no watches left. Made late and destroyed last: the kernel takes up to 15 ms
// (measured) to close an inotify descriptor that has watches.
class FileWatcher {
 public:
  FileWatcher(asio::io_context& context, std::function<void()> happened);

  void watch(const std::string& path, unsigned events);

 private:
  Readable inotify_;
};

}  // namespace dlock::local
