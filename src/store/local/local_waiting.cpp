// LocalClaimant: how a waiter sleeps until the lock may be free, and how a holder is
// notified of changes to its lease.
#include <sys/inotify.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "store/local/file_name.hpp"
#include "store/local/local_claimant.hpp"

namespace dlock::local {
namespace {

// The kernel reports the close of a file a moment before it drops the file's locks, so
// after a close the lock is probed at growing intervals: 0.3, 1.2, 4.8, 19 ms.
constexpr int probes_after_close = 4;
constexpr nanoseconds first_probe = std::chrono::microseconds(300);

// How often a waiter asks that cannot be woken.
constexpr milliseconds ask_without_socket{500};

// Watches the file of a lease's lock. A process that breaks the lease touches the file.
// The file is replaced when it has to grow, so it is watched anew after each change.
class FileNews final : public LeaseNews {
 public:
  FileNews(Files& files, LockName lock, std::function<void()> on_news)
      : files_(files), lock_(std::move(lock)), on_news_(std::move(on_news)) {
    watch();
  }

  bool is_interrupted() const override { return !watcher_; }

 private:
  void watch() {
    try {
      if (!watcher_) {
        watcher_.emplace(files_.context(), [this] {
          watch();
          on_news_();
        });
      }
      constexpr unsigned moved = IN_MOVE_SELF | IN_DELETE_SELF;
      const auto file = key_of(lock_, Kept::lock).file;
      watcher_->watch(files_.directory().pinned("sessions"), moved | IN_ATTRIB);
      watcher_->watch(files_.folder().pinned(file), moved | IN_ATTRIB | IN_DONT_FOLLOW);
      watcher_->watch(files_.folder().pinned("."), moved);
      watcher_->watch(files_.directory().pinned("."), moved);
    } catch (const Failure&) {
      // The user may have no inotify watches left. The lock holds without one, and is
      // checked by the clock.
      watcher_.reset();
    }
  }

  Files& files_;
  LockName lock_;
  std::function<void()> on_news_;
  std::optional<FileWatcher> watcher_;
};

}  // namespace

std::unique_ptr<LeaseNews> LocalClaimant::listen(std::function<void()> on_news) {
  if (!claim().attached) return nullptr;  // it ends only by the clock
  return std::make_unique<FileNews>(files_, claim().lock, std::move(on_news));
}

// After the change that put the claim into the queue, so that a process that removes a
// dead waiter also knows its socket. A waiter that was promised the lock in between may
// not have been woken.
void LocalClaimant::start_waiting(Wakeup& wakeup) {
  if (wake_socket_) return;
  try {
    wake_socket_.emplace(files_.context(), files_.directory(), party_.session, wakeup);
  } catch (const Failure&) {
    // The file system may have no sockets. Then only the clock wakes this waiter.
    ask_again_ = std::min(ask_again_, Clock::now() + ask_without_socket);
    return;
  }
  const auto look = files_.look_at(claim().lock);
  const auto own = std::find_if(
      look.state.waiters.begin(), look.state.waiters.end(),
      [&](const Waiter& waiter) { return waiter.party.token == claim().token; });
  const bool waits = own != look.state.waiters.end() && !own->promised_until;
  if (!waits) ask_again_ = Clock::now();
}

void LocalClaimant::stop_waiting() {
  wake_socket_.reset();
  processes_.reset();
  watch_sessions_ = false;
}

// Makes this waiter wake up when the party that it waits for is gone.
void LocalClaimant::follow(const rules::WaitsFor& watch) {
  ask_again_ = watch.ask_again;
  watch_sessions_ = false;
  std::set<pid_t> dlocks;
  const auto add = [&](const Party& party) {
    if (party.session == 0) return;  // detached: it ends by the clock
    if (party.pid_namespace == party_.pid_namespace) {
      dlocks.insert(party.pid);
    } else {
      watch_sessions_ = true;
    }
  };
  if (watch.predecessor != nullptr) add(*watch.predecessor);
  for (const auto* holder : watch.holders) add(holder->party);

  const auto gone = processes_->watch_only(dlocks);
  if (!gone.empty()) {
    // A holder's dlock was killed. The remaining processes of the run hold the lock until
    // the last one closes the session, or the command ends if it has closed the session.
    std::set<pid_t> left;
    std::set_difference(dlocks.begin(), dlocks.end(), gone.begin(), gone.end(),
                        std::inserter(left, left.end()));
    for (const auto* holder : watch.holders) {
      if (gone.count(holder->party.pid) == 0) continue;
      watch_sessions_ = true;
      if (holder->command != 0) left.insert(holder->command);
    }
    processes_->watch_only(left);
    // A waiter that died since the state was read is removed by the next claim.
    if (watch.predecessor != nullptr) ask_again_ = Clock::now() + first_probe;
  }
  if (watch_sessions_ && !sessions_watcher_) watch_sessions();
}

void LocalClaimant::watch_sessions() {
  try {
    sessions_watcher_.emplace(files_.context(), [this] {
      if (!watch_sessions_) return;
      probe_soon();
      if (sleeper_ != nullptr) sleeper_->notify();
    });
    sessions_watcher_->watch(files_.directory().pinned("sessions"), IN_CLOSE);
    probe_soon();  // it may have been closed while this was set up
  } catch (const Failure&) {
    // The user may have no inotify watches left. Without one, ask again by the clock.
    sessions_watcher_.reset();
  }
}

void LocalClaimant::probe_soon() {
  probes_left_ = probes_after_close;
  next_probe_ = first_probe;
}

asio::awaitable<void> LocalClaimant::await_turn(Wakeup& wakeup, Clock::time_point until) {
  sleeper_ = &wakeup;
  auto end = std::min(until, ask_again_);
  if (probes_left_ > 0) {
    end = std::min(end, Clock::now() + next_probe_);
    --probes_left_;
    next_probe_ *= 4;
  }
  co_await wakeup.wait_until(end);
  sleeper_ = nullptr;
}

}  // namespace dlock::local
