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
    if (!files_watcher_) watch_files();
    look_at_lease();
  });
}

// For what happens to the files. Whoever breaks a lease touches one of them.
void LocalStore::watch_files() {
  try {
    files_watcher_.emplace(context_, [this] {
      if (keeping_) look_at_lease();
    });
    constexpr unsigned moved = IN_MOVE_SELF | IN_DELETE_SELF | IN_ATTRIB;
    files_watcher_->watch(directory_->pinned("sessions"), moved);
    files_watcher_->watch(directory_->pinned(Database::file_name()), moved);
    files_watcher_->watch(directory_->pinned("."), IN_MOVE_SELF | IN_DELETE_SELF);
  } catch (const Failure&) {
    // Watches are a limited resource of the user's. Without one the lock holds all the
    // same, and it is looked at by the clock.
    files_watcher_.reset();
  }
}

// In one go, for nothing else of this process may come in between.
void LocalStore::look_at_lease() {
  auto look_again = files_watcher_ ? milliseconds(0) : watched_after;
  try {
    if (const auto lost = loss()) return keeping_->watcher->forfeit(*lost);
  } catch (const Failure& failure) {
    constexpr milliseconds soon{5};
    const bool is_busy = failure.kind() == Failure::Kind::interrupted;
    look_again = is_busy ? soon : watched_after;
  }
  if (look_again.count() > 0) look_at_lease_after(look_again);
}

// Whether the lease that is kept is lost, and why. Throws Failure: interrupted if
// somebody is at the gate just now.
std::optional<Loss> LocalStore::loss() {
  if (!in_place()) return Loss::gone;
  if (!gate_->try_lock(Gate::Access::read)) {
    throw Failure(Failure::Kind::interrupted, "busy");
  }
  const Turn turn(*gate_);
  open_database(Database::Access::read);
  if (!database_) return std::nullopt;
  Transaction transaction(*database_, Database::Access::read);
  const auto state = load(transaction, keeping_->lock);
  return is_broken(state, keeping_->token) ? std::optional(Loss::broken) : std::nullopt;
}

// The watcher of files stays until the end: see FileWatcher.
void LocalStore::stop_keeping() { keeping_.reset(); }

}  // namespace dlock::local
