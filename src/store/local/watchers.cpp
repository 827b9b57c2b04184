#include "store/local/watchers.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "loop/retry.hpp"
#include "util/failure.hpp"
#include "util/fd.hpp"
#include "util/process.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

Fd new_inotify() {
  Fd fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!fd) throw failure_of(errno, "cannot watch the store's files");
  return fd;
}

}  // namespace

std::set<pid_t> ProcessWatcher::watch_only(const std::set<pid_t>& processes) {
  std::erase_if(watched_,
                [&](const auto& entry) { return processes.count(entry.first) == 0; });
  std::set<pid_t> gone;
  for (const pid_t pid : processes) {
    if (watched_.count(pid) > 0) continue;
    if (has_ended(pid)) {  // also a zombie, whose descriptor would stay readable
      gone.insert(pid);
      continue;
    }
    Fd process(open_pidfd(pid));
    // Out of descriptors, or an old kernel: the waiter asks again by the clock.
    if (!process) continue;
    watched_.try_emplace(pid, context_, std::move(process), [this, pid] {
      watched_.erase(pid);
      wakeup_.notify();
    });
  }
  return gone;
}

PauseAfterCall pause_in_a_flood() {
  constexpr int most_at_once = 16;
  return [restraint = Restraint(most_at_once)]() mutable {
    return restraint.pause(Clock::now());
  };
}

FileWatcher::FileWatcher(asio::io_context& context, std::function<void()> happened,
                         PauseAfterCall pause)
    : inotify_(
          context, new_inotify(),
          [this, happened = std::move(happened)] {
            char events[4096];
            constexpr int most_reads = 64;
            for (int reads = 0; reads < most_reads; ++reads) {
              if (::read(inotify_.fd(), events, sizeof events) <= 0) break;
            }
            happened();
          },
          std::move(pause)) {}

void FileWatcher::watch(const std::string& path, unsigned events) {
  if (::inotify_add_watch(inotify_.fd(), path.c_str(), events) < 0) {
    throw failure_to_watch(errno, "cannot watch " + printable(path));
  }
}

}  // namespace dlock::local
