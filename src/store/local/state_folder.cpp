#include "store/local/state_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>

#include "rules/look.hpp"
#include "store/local/local_waiting.hpp"
#include "store/local/text_files.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

// Tolerance: clocks are set, and files are written, while a machine boots.
constexpr WallTime about = std::chrono::seconds(60);

// Until when a lock or limit of another epoch is in use without a process: detached
// leases, and the stamps of a limit.
WallTime counts_until(const StoredState& kept, const Moment& written) {
  WallTime last{};
  const auto add = [&](Clock::time_point end) {
    last = std::max(
        last, written.wall + std::chrono::duration_cast<WallTime>(end - written.boot));
  };
  if (const auto* limit = std::get_if<LimitState>(&kept.state)) {
    if (!limit->stamps.empty()) add(later(limit->stamps.back(), limit->rate.period));
    return last;
  }
  for (const auto& holder : kept.of_lock().holders) {
    if (holder.ends_at) add(*holder.ends_at);
  }
  return last;
}

// Calls `look` with each lock and limit in the folder that can be read, until it returns
// false. The rest stays out of it: it must not prevent what is done with the others.
void look_at_each(
    const Directory& folder,
    const std::function<bool(const RecordFile&, const StoredState&)>& look) {
  for (const auto& file : folder.names()) {
    const auto kept = kind_of(file);
    if (!kept) continue;
    try {
      const RecordFile record(folder, file, RecordFile::Access::read);
      const auto found = stored_in(record, *kept);
      if (found && !look(record, *found)) return;
    } catch (const Failure&) {
    }
  }
}

// Whether anything in a folder of another epoch is still in use by its clock. With
// another boot id, files from before this boot are not.
bool counts_by_clock(const Directory& folder, bool same_boot) {
  const auto now = Moment::now();
  const auto started =
      now.wall - std::chrono::duration_cast<WallTime>(now.boot.time_since_epoch());
  bool counts = false;
  look_at_each(folder, [&](const RecordFile& record, const StoredState& kept) {
    const auto written = record.written();
    const bool may_count = same_boot || written.wall + about > started;
    counts =
        may_count && is_possible(written.wall) && counts_until(kept, written) > now.wall;
    return !counts;
  });
  return counts;
}

constexpr const char* draft_end = ".new";
constexpr const char* retired_end = ".old";

std::string folder_draft_name() { return state_folder_name() + draft_end; }

bool is_of_another_epoch(const std::string& name) {
  return is_state_folder_name(name) && name != state_folder_name() &&
         name != folder_draft_name();
}

void refuse_if_in_use(const Directory& directory, const SessionsFile& sessions) {
  refuse_if_used_elsewhere(directory, sessions);
  if (!sessions.has_sessions()) return;
  // Their dlocks have noticed it, and stop them.
  throw Transient(Failure::Kind::misconfigured,
                  printable(directory.path()) +
                      " has lost the state of its locks while processes hold some of "
                      "them; stop those processes first");
}

// Removes a folder of files, or any other file with that name, as far as possible.
void remove(const Directory& directory, const std::string& name) {
  try {
    if (const auto folder = directory.folder(name, Directory::Missing::accept)) {
      for (const auto& file : folder->names()) ::unlinkat(folder->fd(), file.c_str(), 0);
    }
  } catch (const Failure&) {
    // Not a dlock folder.
  }
  if (::unlinkat(directory.fd(), name.c_str(), AT_REMOVEDIR) != 0) {
    ::unlinkat(directory.fd(), name.c_str(), 0);
  }
}

// Takes the folders of other epochs out of use before ours can be used: a process that is
// killed in between must not leave two. They are renamed because their files can only be
// removed one by one. A folder in a lower layer of an overlay file system cannot be
// renamed (EXDEV). Nothing in it is in use any more, and all_locks_mutex is held, so it
// does no harm if only some of its files are removed: the log has the greatest fence.
void retire_others(const Directory& directory) {
  for (const auto& name : directory.names()) {
    if (!is_of_another_epoch(name) || name.ends_with(draft_end) ||
        name.ends_with(retired_end)) {
      continue;
    }
    const auto retired = name + retired_end;
    remove(directory, retired);
    if (::renameat(directory.fd(), name.c_str(), directory.fd(), retired.c_str()) == 0) {
      continue;
    }
    const int error = errno;
    remove(directory, name);
    struct stat status {};
    if (::fstatat(directory.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
      throw_failure_of(error, "cannot remove " + printable(directory.path_of(name)));
    }
  }
}

void fill(const Directory& folder, const record::History& history) {
  const auto now = Moment::now();
  set_head(folder, {history.greatest_fence.number, now.wall.count()});
  for (const auto& [lock, run] : history.last_runs) {
    const auto state = state_from(history, lock);
    RecordFile file(folder, key_of(lock, StateKind::lock).file,
                    RecordFile::Access::write);
    file.write(with_name(lock, encoded(state)), now);
  }
}

}  // namespace

State state_from(const record::History& history, const LockName& lock) {
  State state;
  state.last_fence = history.greatest_fence;  // the fence floor
  const auto last = history.last_runs.find(lock);
  if (last == history.last_runs.end()) return state;
  state.last_run = last->second;
  if (const auto past = history.past.find(lock); past != history.past.end()) {
    state.past = past->second;
  }
  state.used = last->second.ended.value_or(last->second.started);
  if (const auto runs = history.runs.find(lock); runs != history.runs.end()) {
    for (const auto& earlier : runs->second) record_past_run(state, earlier);
  }
  return state;
}

void refuse_if_used_elsewhere(const Directory& directory, const SessionsFile& sessions) {
  for (const auto& name : directory.names()) {
    if (!is_of_another_epoch(name)) continue;
    const bool same_boot = name.find(boot_id()) != std::string::npos;
    std::optional<Directory> folder;
    try {
      folder = directory.folder(name, Directory::Missing::accept);
    } catch (const Failure&) {  // a file of an earlier version, or not dlock's
    }
    if (!sessions.has_sessions() && !(folder && counts_by_clock(*folder, same_boot))) {
      continue;
    }
    throw Failure::misconfigured(
        printable(directory.path()) +
        " is in use under another boot id or in another time namespace (a container?); "
        "use a separate directory for each, or a server");
  }
}

Directory make_state_folder(const Directory& directory, const SessionsFile& sessions) {
  refuse_if_in_use(directory, sessions);
  const auto name = state_folder_name();
  const auto draft = folder_draft_name();
  remove(directory, draft);  // left by a process that was killed here
  try {
    fill(*directory.folder(draft, Directory::Missing::create), RunsLog(directory).read());
    retire_others(directory);
    if (::renameat(directory.fd(), draft.c_str(), directory.fd(), name.c_str()) != 0) {
      throw_failure_of(errno, "cannot create " + printable(directory.path_of(name)));
    }
  } catch (const Failure&) {
    remove(directory, draft);
    throw;
  }
  for (const auto& other : directory.names()) {
    if (is_of_another_epoch(other)) remove(directory, other);
    if (session_of_wake_socket(other)) ::unlinkat(directory.fd(), other.c_str(), 0);
  }
  return *directory.folder(name, Directory::Missing::create);
}

FolderHead head_of(const Directory& folder) {
  const RecordFile file(folder, head_file, RecordFile::Access::read);
  FolderHead head;
  if (file.payload().size() != sizeof head) {
    throw damaged(folder.path_of(head_file), file.exists() ? "damaged" : "missing");
  }
  std::memcpy(&head, file.payload().data(), sizeof head);
  if (Fence{head.fence_floor} > greatest_fence || !is_possible(WallTime(head.swept))) {
    throw damaged(folder.path_of(head_file), "damaged");
  }
  return head;
}

FolderHead mend_head(const Directory& folder, Fence greatest_in_log) {
  try {
    return head_of(folder);  // another process may have been faster
  } catch (const Damaged&) {
  }
  auto greatest = greatest_in_log;
  look_at_each(folder, [&](const RecordFile&, const StoredState& kept) {
    const auto* state = std::get_if<State>(&kept.state);
    if (state != nullptr) greatest = std::max(greatest, state->last_fence);
    return true;
  });
  ::unlinkat(folder.fd(), head_file, 0);
  const FolderHead head{greatest.number, Moment::now().wall.count()};
  set_head(folder, head);
  return head;
}

void set_head(const Directory& folder, const FolderHead& head) {
  RecordFile file(folder, head_file, RecordFile::Access::write);
  std::string bytes(sizeof head, '\0');
  std::memcpy(bytes.data(), &head, sizeof head);
  file.write(std::move(bytes), Moment::now());
}

namespace {

// The fence floor that the removal of a lock or limit needs; nothing if it is in use.
std::optional<std::uint64_t> floor_if_unused(const StoredState& kept, const Moment& now,
                                             const Liveness& liveness) {
  if (const auto* limit = std::get_if<LimitState>(&kept.state)) {
    return is_out_of_use(*limit, now.boot) ? std::optional<std::uint64_t>(0)
                                           : std::nullopt;
  }
  const auto& state = kept.of_lock();
  if (!is_out_of_use(state, now, liveness)) return std::nullopt;
  return state.last_fence.number;
}

}  // namespace

std::vector<std::string> find_unused(const Directory& folder,
                                     const SessionsFile& sessions, FolderHead& head) {
  constexpr std::size_t most = 10'000;
  std::vector<std::string> unused;
  const auto now = Moment::now();
  look_at_each(folder, [&](const RecordFile& record, const StoredState& kept) {
    if (const auto floor = floor_if_unused(kept, now, sessions)) {
      unused.push_back(record.name());
      head.fence_floor = std::max(head.fence_floor, *floor);
    }
    return unused.size() < most;
  });
  head.swept = now.wall.count();
  return unused;
}

void drop_if_unused(const Directory& directory, const Directory& folder,
                    SessionsFile& sessions, const std::string& file,
                    std::uint64_t floor) {
  try {
    const auto kept = kind_of(file).value();
    const auto named = stored_in({folder, file, RecordFile::Access::read}, kept);
    if (!named) return;
    const auto key = key_of(named->name, kept);
    if (key.file != file || !sessions.try_lock(key.mutex)) return;
    const MutexGuard guard(sessions, key.mutex);
    RecordFile record(folder, file, RecordFile::Access::write);
    const auto found = stored_in(record, kept);
    if (!found ||
        floor_if_unused(*found, Moment::now(), sessions).value_or(floor + 1) > floor) {
      return;
    }
    if (kept == StateKind::lock) {
      for (const auto& waiter : found->of_lock().waiters) {
        remove_wake_socket(directory, waiter.party.session);
      }
    }
    record.remove();
  } catch (const Failure&) {
    // As in look_at_each().
  }
}

}  // namespace dlock::local
