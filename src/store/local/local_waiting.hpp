// How a process of a local store waits: for another process to wake it or to end, and for
// files to change.
#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "lock/claimant.hpp"
#include "loop/wakeup.hpp"
#include "rules/watches.hpp"
#include "store/directory.hpp"
#include "store/local/sessions.hpp"

namespace dlock::local {

class Files;

// The socket of a waiter, which exists in the store's directory while it waits. Any
// datagram means "ask again".
class WakeSocket {
 public:
  // Throws Failure.
  WakeSocket(asio::io_context& context, const Directory& directory, Session session,
             Wakeup& wakeup);
  ~WakeSocket();

 private:
  const Directory& directory_;
  Session session_;
  Readable socket_;
};

// The session whose socket has this file name; nothing for other files.
std::optional<Session> session_of_wake_socket(const std::string& name);

// Wakes other processes.
class Waker {
 public:
  // Opens its socket in advance, so that wake() is fast.
  void prepare();

  // Closes its socket; false if it had none.
  bool let_go();

  // Wakes the waiter of `session`. It is only a hint, so failures are ignored: a waiter
  // that is not reached asks again by itself.
  void wake(const Directory& directory, Session session);

 private:
  Fd socket_;
};

// Removes the socket of a dead waiter.
void remove_wake_socket(const Directory& directory, Session session);

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

// How a waiter sleeps until the lock may be free.
class LocalWaiting {
 public:
  // `files` must outlive this.
  explicit LocalWaiting(Files& files) : files_(files) {}

  // Makes the waiter `own` wake up when it is told to, and when a party that it waits for
  // has died. After the change that put the claim into the queue, so that a process that
  // removes a dead waiter also knows its socket.
  void begin(const LockName& lock, const Party& own, const rules::WaitsFor& watch,
             Wakeup& wakeup);

  void stop();

  // The same, once the files have been replaced.
  void close();

  // Returns when the waiter is to ask again, at the latest at `until`.
  asio::awaitable<void> sleep(Call call);

 private:
  void follow(const Party& own, const rules::WaitsFor& watch);
  void open_socket(const LockName& lock, const Party& own, Wakeup& wakeup);
  void watch_sessions();
  void probe_soon();

  Files& files_;
  std::optional<WakeSocket> wake_socket_;
  std::optional<ProcessWatcher> processes_;
  std::optional<FileWatcher> sessions_watcher_;  // kept once created: see FileWatcher
  bool watches_sessions_ = false;
  Wakeup* sleeper_ = nullptr;
  Clock::time_point ask_again_;
  int probes_left_ = 0;
  nanoseconds next_probe_{};
};

// Watches the file of a lease's lock, which a process that breaks the lease touches.
std::unique_ptr<LeaseNews> news_of_lease(Files& files, const LockName& lock,
                                         std::function<void()> on_news);

}  // namespace dlock::local
