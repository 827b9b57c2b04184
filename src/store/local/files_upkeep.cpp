// Files: removal of locks and limits that were not used for long.
#include <algorithm>
#include <utility>

#include "rules/look.hpp"
#include "store/local/file_name.hpp"
#include "store/local/files.hpp"
#include "store/local/limit_bytes.hpp"
#include "store/local/state_bytes.hpp"

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
