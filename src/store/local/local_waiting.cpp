#include "store/local/local_waiting.hpp"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

#include "store/local/files.hpp"
#include "store/local/record_file.hpp"
#include "util/failure.hpp"
#include "util/process.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

std::string name_of(Session session) {
  char name[32];
  std::snprintf(name, sizeof name, "wake-%016llx",
                static_cast<unsigned long long>(session));
  return name;
}

sockaddr_un address_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
  return address;
}

Fd datagram_socket() {
  return Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// The socket interface requires a cast to the generic address type.
const sockaddr* generic(const sockaddr_un& address) {
  return static_cast<const sockaddr*>(static_cast<const void*>(&address));
}

// Through the directory's descriptor: an address has 108 bytes, a path may have
// thousands.
Fd bound_socket(const Directory& directory, Session session) {
  const auto address = address_at(directory.pinned(name_of(session)));
  Fd socket = datagram_socket();
  constexpr mode_t all = 0777;
  const auto umask = ::umask(all & ~directory.file_mode());
  const bool is_bound =
      socket && ::bind(socket.get(), generic(address), sizeof address) == 0;
  const int error = errno;
  ::umask(umask);
  if (!is_bound) {
    throw failure_of(error, "cannot make a socket in " + printable(directory.path()));
  }
  return socket;
}

// Opens the file with that name; an invalid Fd if it is not a dlock socket, as a link
// could lead to another program's.
Fd opened_socket(const Directory& directory, Session session) {
  Fd found(::openat(directory.fd(), name_of(session).c_str(),
                    O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  const bool is_socket = found && ::fstat(found.get(), &status) == 0 &&
                         S_ISSOCK(status.st_mode) && status.st_nlink == 1 &&
                         directory.is_made_by_dlock(status);
  return is_socket ? std::move(found) : Fd();
}

// The contents of datagrams do not matter; no more are read at a time than dlock sends,
// so that a flood cannot keep us busy.
void drain(int socket) {
  constexpr int most = 64;
  char ignored[16];
  for (int count = 0; count < most; ++count) {
    if (::recv(socket, ignored, sizeof ignored, MSG_DONTWAIT) < 0) return;
  }
}

}  // namespace

std::optional<Session> session_of_wake_socket(const std::string& name) {
  unsigned long long session = 0;
  const bool is_whole =
      std::sscanf(name.c_str(), "wake-%16llx", &session) == 1 && name == name_of(session);
  return is_whole ? std::optional<Session>(session) : std::nullopt;
}

WakeSocket::WakeSocket(asio::io_context& context, const Directory& directory,
                       Session session, Wakeup& wakeup)
    : directory_(directory),
      session_(session),
      socket_(
          context, bound_socket(directory, session),
          [this, &wakeup] {
            drain(socket_.fd());
            wakeup.notify();
          },
          pause_in_a_flood()) {}

WakeSocket::~WakeSocket() { remove_wake_socket(directory_, session_); }

void Waker::prepare() {
  if (!socket_) socket_ = datagram_socket();
}

bool Waker::let_go() {
  const bool had_one = static_cast<bool>(socket_);
  socket_.reset();
  return had_one;
}

void Waker::wake(const Directory& directory, Session session) {
  prepare();
  const Fd to = opened_socket(directory, session);
  if (!socket_ || !to) return;
  const auto address = address_at("/proc/self/fd/" + std::to_string(to.get()));
  ::sendto(socket_.get(), "w", 1, MSG_DONTWAIT | MSG_NOSIGNAL, generic(address),
           sizeof address);
}

void remove_wake_socket(const Directory& directory, Session session) {
  ::unlinkat(directory.fd(), name_of(session).c_str(), 0);
}

namespace {

Fd new_inotify() {
  Fd fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!fd)
    throw failure_of_call(errno, "cannot watch the store's files", "inotify_init1");
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
    throw failure_of_call(errno, "cannot watch " + printable(path), "inotify_add_watch");
  }
}

namespace {

// The kernel reports the close of a file a moment before it drops the file's locks, so
// after a close the lock is probed at growing intervals: 0.3, 1.2, 4.8, 19 ms.
constexpr int probes_after_close = 4;
constexpr nanoseconds first_probe = std::chrono::microseconds(300);

// How often a waiter asks that cannot be woken.
constexpr milliseconds ask_without_socket{500};

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
      const auto file = key_of(lock_, StateKind::lock).file;
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

std::unique_ptr<LeaseNews> news_of_lease(Files& files, const LockName& lock,
                                         std::function<void()> on_news) {
  return std::make_unique<FileNews>(files, lock, std::move(on_news));
}

void LocalWaiting::begin(const LockName& lock, const Party& own,
                         const rules::WaitsFor& watch, Wakeup& wakeup) {
  if (!processes_) processes_.emplace(files_.context(), wakeup);
  follow(own, watch);
  if (!wake_socket_) open_socket(lock, own, wakeup);
}

// A waiter that was promised the lock before it had a socket may not have been woken.
void LocalWaiting::open_socket(const LockName& lock, const Party& own, Wakeup& wakeup) {
  try {
    wake_socket_.emplace(files_.context(), files_.directory(), own.session, wakeup);
  } catch (const Failure&) {
    // The file system may have no sockets. Then only the clock wakes this waiter.
    ask_again_ = std::min(ask_again_, Clock::now() + ask_without_socket);
    return;
  }
  auto state = files_.look_at(lock).state;
  const auto waiter = waiter_of(state, own.token);
  const bool waits = waiter != state.waiters.end() && !waiter->promised_until;
  if (!waits) ask_again_ = Clock::now();
}

void LocalWaiting::stop() {
  wake_socket_.reset();
  processes_.reset();
  watches_sessions_ = false;
}

void LocalWaiting::close() {
  stop();
  sessions_watcher_.reset();
}

void LocalWaiting::follow(const Party& own, const rules::WaitsFor& watch) {
  ask_again_ = watch.ask_again;
  watches_sessions_ = false;
  std::set<pid_t> dlocks;
  const auto add = [&](const Party& party) {
    if (party.session == 0) return;  // detached: it ends by the clock
    if (party.pid_namespace == own.pid_namespace) {
      dlocks.insert(party.pid);
    } else {
      watches_sessions_ = true;
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
      watches_sessions_ = true;
      if (holder->command != 0) left.insert(holder->command);
    }
    processes_->watch_only(left);
    // A waiter that died since the state was read is removed by the next claim.
    if (watch.predecessor != nullptr) ask_again_ = Clock::now() + first_probe;
  }
  if (watches_sessions_ && !sessions_watcher_) watch_sessions();
}

void LocalWaiting::watch_sessions() {
  try {
    sessions_watcher_.emplace(files_.context(), [this] {
      if (!watches_sessions_) return;
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

void LocalWaiting::probe_soon() {
  probes_left_ = probes_after_close;
  next_probe_ = first_probe;
}

asio::awaitable<void> LocalWaiting::sleep(Call call) {
  sleeper_ = &call.wakeup;
  auto end = std::min(call.until, ask_again_);
  if (probes_left_ > 0) {
    end = std::min(end, Clock::now() + next_probe_);
    --probes_left_;
    next_probe_ *= 4;
  }
  co_await call.wakeup.wait_until(end);
  sleeper_ = nullptr;
}

}  // namespace dlock::local
