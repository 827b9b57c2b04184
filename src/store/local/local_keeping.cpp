// LocalStore: what becomes of a lease that is held.
#include <sys/inotify.h>

#include "store/local/local_store.hpp"

namespace dlock::local {
namespace {

// A run that is over sooner is not worth the watching.
constexpr milliseconds watched_after{1000};

}  // namespace

// Nothing renews a local lease, but somebody can break it; and somebody can remove or
// replace the files it is made of: then the next one would be granted it, and this run is
// lost.
void LocalStore::start_keeping(const Claim& claim, const Grant&, LeaseTiming,
                               LeaseWatcher& watcher) {
  keeping_.emplace(
      Keeping{claim.lock, claim.token, &watcher, asio::steady_timer(context_)});
  look_at_lease_after(watched_after);
}

void LocalStore::look_at_lease_after(milliseconds pause) {
  keeping_->timer.expires_after(pause);
  keeping_->timer.async_wait([this](boost::system::error_code error) {
    if (error || !keeping_) return;
    watch_files();
    look_at_lease();
  });
}

// For what happens to the files. Whoever breaks a lease touches that of its lock, which
// is another one once it had to grow.
void LocalStore::watch_files() {
  try {
    if (!files_watcher_) {
      files_watcher_.emplace(context_, [this] {
        if (keeping_) look_at_lease_after(milliseconds(0));
      });
    }
    constexpr unsigned moved = IN_MOVE_SELF | IN_DELETE_SELF;
    const auto file = key_of(keeping_->lock, Kept::lock).file;
    files_watcher_->watch(directory_->pinned("sessions"), moved | IN_ATTRIB);
    files_watcher_->watch(folder_->pinned(file), moved | IN_ATTRIB | IN_DONT_FOLLOW);
    files_watcher_->watch(folder_->pinned("."), moved);
    files_watcher_->watch(directory_->pinned("."), moved);
  } catch (const Failure&) {
    // Watches are a limited resource of the user's. Without one the lock holds all the
    // same, and it is looked at by the clock.
    files_watcher_.reset();
  }
}

void LocalStore::look_at_lease() {
  bool look_again = !files_watcher_;
  try {
    if (const auto lost = loss()) return keeping_->watcher->forfeit(*lost);
  } catch (const Failure&) {
    look_again = true;  // short of descriptors, say
  }
  if (look_again) look_at_lease_after(watched_after);
}

// Whether the lease that is kept is lost, and why. Throws Failure.
std::optional<Loss> LocalStore::loss() const {
  if (!in_place()) return Loss::gone;
  return loss_of(look_at(keeping_->lock).state, keeping_->token);
}

// The watcher of files stays until the end: see FileWatcher.
void LocalStore::stop_keeping() { keeping_.reset(); }

}  // namespace dlock::local
