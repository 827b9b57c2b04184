// Files: what keeps them in order: the removal of locks and limits that were not used for
// long, and the repair of what others have removed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "record/state_bytes.hpp"
#include "rules/look.hpp"
#include "store/local/file_name.hpp"
#include "store/local/files.hpp"
#include "store/local/runs_log.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

// How often unused locks are searched for, and how many are removed at once.
constexpr WallTime drop_unused_every = std::chrono::hours(24);
constexpr std::size_t drop_most = 10'000;

// If the lock or limit of this file is out of use: the fence floor that its removal
// needs.
std::optional<std::uint64_t> floor_if_unused(const Directory& folder,
                                             const std::string& file, const Moment& now,
                                             const Liveness& liveness) {
  const bool is_limit = is_file_of(Kept::limit, file);
  if (!is_limit && !is_file_of(Kept::lock, file)) return std::nullopt;
  try {
    const RecordFile record(folder, file, RecordFile::Access::read);
    const auto named = named_in(record.payload());
    if (!named) return std::nullopt;
    if (is_limit) {
      const auto limit = decoded_limit(named->value);
      if (limit && is_out_of_use(*limit, now.boot)) return 0;
    } else {
      const auto state = decoded(named->value);
      if (state && is_out_of_use(*state, now, liveness)) return state->last_fence.number;
    }
  } catch (const Failure&) {
    // Unreadable files stay, and must not prevent the removal of others.
  }
  return std::nullopt;
}

}  // namespace

asio::awaitable<Files::Change> Files::begin_claim(const LockName& lock, Session own,
                                                  Wakeup& wakeup) {
  const auto key = key_of(lock, Kept::lock);
  auto guard = co_await lock_mutex(key.mutex, wakeup);
  try {
    auto change = begin(lock, std::move(guard));  // which moves it at the end
    check_in_place();
    if (!change.file.exists() && sessions_->is_in_use(lock, own)) {
      wake_all_waiters();  // they may only be waiters
      throw Transient(Failure::Kind::unreachable,
                      printable(folder_->path_of(key.file)) +
                          " was removed while processes use the lock; stop those "
                          "processes first");
    }
    co_return change;
  } catch (const Damaged& damage) {
    check_in_place();
    if (sessions_->is_in_use(lock, own)) throw Transient(damage.kind(), damage.what());
    if (record::has_lease_by_hand(RunsLog(*directory_).text(), lock)) throw;
  }
  ::unlinkat(folder_->fd(), key.file.c_str(), 0);
  auto change = begin(lock, std::move(guard));
  change.state = state_from(RunsLog(*directory_).read(), lock);
  co_return change;
}

void Files::keep_fresh(const RecordFile* file) const {
  static constexpr WallTime half_a_day = std::chrono::hours(12);
  const auto is_old = [](WallTime changed) { return wall_now() - changed > half_a_day; };
  if (file != nullptr && file->exists() && is_old(file->changed())) file->touch();
  struct stat status {};
  if (!is_old(sessions_->changed()) &&
      (file == nullptr || ::fstat(sessions_->fd(), &status) != 0 ||
       !is_old(WallTime(std::chrono::seconds(status.st_mtim.tv_sec))))) {
    return;
  }
  ::futimens(sessions_->fd(), nullptr);
  for (const char* name : {"fences", "runs.jsonl"}) {
    ::utimensat(directory_->fd(), name, nullptr, AT_SYMLINK_NOFOLLOW);
  }
  ::utimensat(folder_->fd(), "head", nullptr, AT_SYMLINK_NOFOLLOW);
}

void Files::wake_all_waiters() {
  for (const auto& name : directory_->names()) {
    if (const auto session = session_of_wake_socket(name)) {
      waker_.wake(*directory_, *session);
    }
  }
}

asio::awaitable<FolderHead> Files::sound_head(Wakeup& wakeup) {
  try {
    co_return head_of(*folder_);
  } catch (const Damaged&) {
    // co_await is not allowed in a handler
  }
  const MutexGuard guard = co_await lock_mutex(upkeep_mutex, wakeup);
  co_return mend_head(*folder_, RunsLog(*directory_).read().greatest_fence);
}

void Files::note_sweep(const FolderHead& head) {
  is_sweep_due_ = wall_now() - WallTime(head.swept) > drop_unused_every;
}

// Once a day, by a process that has used a new lock or limit. Later grants of the same
// names need greater fences, so the floor is raised before the first file is removed.
asio::awaitable<void> Files::drop_unused(Wakeup& wakeup) {
  if (!std::exchange(is_sweep_due_, false)) co_return;
  try {
    FolderHead head;
    std::vector<std::string> unused;
    {
      const MutexGuard guard = co_await lock_mutex(upkeep_mutex, wakeup);
      // Another process may have done this while we waited, and raised the floor.
      head = head_of(*folder_);
      note_sweep(head);
      if (!std::exchange(is_sweep_due_, false)) co_return;
      const auto now = Moment::now();
      for (const auto& file : folder_->names()) {
        if (unused.size() == drop_most) break;
        const auto floor = floor_if_unused(*folder_, file, now, *sessions_);
        if (!floor) continue;
        unused.push_back(file);
        head.fence_floor = std::max(head.fence_floor, *floor);
      }
      head.swept = now.wall.count();
      set_head(*folder_, head);
    }
    for (const auto& file : unused) {
      try {
        drop_if_unused(file, head.fence_floor);
      } catch (const Failure&) {
        // As in floor_if_unused().
      }
    }
  } catch (const Failure&) {
    // Tried again by the next process that uses a new lock or limit.
  }
}

void Files::drop_if_unused(const std::string& file, std::uint64_t floor) {
  const auto kept = is_file_of(Kept::limit, file) ? Kept::limit : Kept::lock;
  std::optional<LockName> name;
  {
    const RecordFile record(*folder_, file, RecordFile::Access::read);
    if (const auto named = named_in(record.payload())) name = named->name;
  }
  if (!name) return;
  const auto key = key_of(*name, kept);
  if (key.file != file || !sessions_->try_lock(key.mutex)) return;
  const MutexGuard guard(*sessions_, key.mutex);
  RecordFile record(*folder_, file, RecordFile::Access::write);
  const auto named = named_in(record.payload());
  if (!named) return;
  const auto now = Moment::now();
  if (kept == Kept::limit) {
    const auto limit = decoded_limit(named->value);
    if (limit && is_out_of_use(*limit, now.boot)) record.remove();
    return;
  }
  const auto state = decoded(named->value);
  if (!state || state->last_fence.number > floor ||
      !is_out_of_use(*state, now, *sessions_)) {
    return;
  }
  for (const auto& waiter : state->waiters)
    remove_wake_socket(*directory_, waiter.party.session);
  record.remove();
}

}  // namespace dlock::local
