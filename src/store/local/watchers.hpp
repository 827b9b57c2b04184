// Descriptors that report the ends of processes and the changes of files.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <set>
#include <string>

#include "loop/readable.hpp"
#include "loop/wakeup.hpp"

namespace dlock::local {

// Notifies `wakeup` when one of a set of processes ends.
class ProcessWatcher {
 public:
  ProcessWatcher(asio::io_context& context, Wakeup& wakeup)
      : context_(context), wakeup_(wakeup) {}

  // Watches exactly these from now on. Returns those that have already ended.
  std::set<pid_t> watch_only(const std::set<pid_t>& processes);

 private:
  asio::io_context& context_;
  Wakeup& wakeup_;
  std::map<pid_t, Readable> watched_;
};

// For a Readable whose data other users send. The first 16 calls in quick succession are
// free.
PauseAfterCall pause_in_a_flood();

// Calls back when files change (inotify(7)). Throws Failure if the user has no watches
// left. Create it late and destroy it last: the kernel takes up to 15 ms (measured) to
// close an inotify descriptor that has watches.
class FileWatcher {
 public:
  // `pause`: see Readable; it delays the next call, which tells of all changes until
  // then.
  FileWatcher(asio::io_context& context, std::function<void()> happened,
              PauseAfterCall pause = pause_in_a_flood());

  void watch(const std::string& path, unsigned events);

 private:
  Readable inotify_;
};

}  // namespace dlock::local
