#include "store/local/examine.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "store/directory.hpp"
#include "store/local/epoch.hpp"
#include "store/local/file_name.hpp"
#include "store/local/limit_bytes.hpp"
#include "store/local/record_file.hpp"
#include "store/local/registers.hpp"
#include "store/local/run_lines.hpp"
#include "store/local/runs_log.hpp"
#include "store/local/sessions.hpp"
#include "store/local/state_bytes.hpp"
#include "store/local/state_folder.hpp"
#include "store/local/wake_socket.hpp"
#include "util/process.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

struct KnownFileSystem {
  unsigned long type;
  const char* name;
  bool forgets;
};

// The common types; see statfs(2).
constexpr KnownFileSystem file_systems[] = {
    {0xEF53, "ext4", false},      {0x58465342, "xfs", false},
    {0x9123683E, "btrfs", false}, {0x2FC12FC1, "zfs", false},
    {0xF2F52010, "f2fs", false},  {0x794C7630, "overlay", false},
    {0x01021994, "tmpfs", true},  {0x858458F6, "ramfs", true},
};

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

bool exists(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

void look_at_room(const std::string& path, Facts& facts) {
  struct statvfs status {};
  if (::statvfs(path.c_str(), &status) != 0) return;
  Room room;
  room.bytes = std::uint64_t{status.f_bavail} * status.f_frsize;
  if (status.f_files > 0) room.files = status.f_favail;
  facts.room = room;
}

void look_at_parent(bool ours, Facts& facts) {
  facts.parent = parent_of(facts.path);
  facts.parents_are_missing = !ours && !exists(facts.parent);
  while (!exists(facts.parent)) facts.parent = parent_of(facts.parent);
  facts.can_be_created =
      ::faccessat(AT_FDCWD, facts.parent.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
  look_at_room(facts.parent, facts);
}

void look_at_what_is_there(Facts& facts) {
  struct stat status {};
  if (::lstat(facts.path.c_str(), &status) != 0) return;
  facts.exists = true;
  facts.is_link_or_file = !S_ISDIR(status.st_mode);
  facts.everybody_writes = (status.st_mode & S_IWOTH) != 0 && !facts.is_link_or_file;
  constexpr mode_t shared_and_sticky = S_IWGRP | S_ISGID | S_ISVTX;
  facts.is_sticky = (status.st_mode & shared_and_sticky) == shared_and_sticky;
  facts.can_be_written =
      ::faccessat(AT_FDCWD, facts.path.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) == 0;
  struct statfs system {};
  if (::statfs(facts.path.c_str(), &system) != 0) return;
  const auto type = static_cast<unsigned long>(system.f_type);
  const Fd opened(::open(facts.path.c_str(), O_PATH | O_CLOEXEC));
  facts.is_unreliable = !why_unreliable(type, mount_type_of(opened.get())).empty();
  for (const auto& known : file_systems) {
    if (known.type != type) continue;
    facts.file_system = known.name;
    facts.forgets = known.forgets;
  }
}

// Checks that a file of the state folder matches its name. Throws Failure if not.
void check(const Directory& folder, const std::string& file, Kept kept) {
  const RecordFile record(folder, file, RecordFile::Access::read);
  if (!record.exists()) return;  // removed just now
  const auto named = named_in(record.payload());
  const bool is_sound = named && key_of(named->name, kept).file == file &&
                        (kept == Kept::lock ? decoded(named->value).has_value()
                                            : decoded_limit(named->value).has_value());
  if (!is_sound) throw damaged(folder.path_of(file), "damaged");
}

// Reads all of the state.
void look_at_state(const Directory& directory, Facts& facts) {
  try {
    const auto folder = open_state_folder(directory);
    facts.has_state = folder.has_value();
    if (!folder) return;
    try {
      head_of(*folder);
    } catch (const Damaged& failure) {
      facts.mended = failure.what();
    }
    for (const auto& file : folder->names()) {
      const bool is_lock = is_file_of(Kept::lock, file);
      if (is_lock) ++facts.locks;
      if (is_lock) check(*folder, file, Kept::lock);
      if (is_file_of(Kept::limit, file)) check(*folder, file, Kept::limit);
    }
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::exhausted) throw;
    facts.state = failure.what();
  }
}

// Whether the mutex is available that every process needs once after boot.
void look_at_gate(const Directory& directory, milliseconds timeout, Facts& facts) {
  SessionsFile sessions(directory, true);
  const auto start = Clock::now();
  while (!sessions.try_lock(setup_mutex)) {
    if (Clock::now() - start >= timeout) {
      facts.busy = mutex_unavailable(sessions, setup_mutex, timeout).what();
      return;
    }
    constexpr useconds_t pause = 1000;
    ::usleep(pause);
  }
}

void look_at_fences(const Directory& directory, Facts& facts) {
  try {
    Registers(directory).check();
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::exhausted) throw;
    facts.fences = failure.what();
  }
  facts.fence_far_ahead = fence_far_ahead(RunsLog(directory).text(), wall_now());
}

// Whether a draft may still be in use: writing one takes no longer.
bool is_young(const Directory& directory, const std::string& name) {
  constexpr std::int64_t seconds = 60;
  struct stat status {};
  return ::fstatat(directory.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
         std::chrono::seconds(status.st_mtim.tv_sec + seconds) > wall_now();
}

void look_at_files(const Directory& directory, Facts& facts) {
  const auto current = state_folder_name();
  const SessionsFile sessions(directory, false);
  for (const auto& name : directory.names()) {
    if (const auto session = session_of_wake_socket(name)) {
      const bool lives = sessions.exists() && sessions.is_locked(*session);
      if (!lives) facts.abandoned.push_back(name);
    } else if (is_state_folder_name(name) && !name.starts_with(current)) {
      // They are removed when the folder of this boot is created.
      (facts.has_state ? facts.stale : facts.abandoned).push_back(name);
    } else if (name.ends_with(".new") && !is_young(directory, name)) {
      facts.abandoned.push_back(name);
    }
  }
}

}  // namespace

Facts facts_of(const std::string& path, milliseconds timeout) {
  Facts facts;
  facts.path = path;
  const bool ours = path.empty();
  if (ours) {
    const auto found = default_directory(surroundings());
    if (!found) {
      facts.unusable = "no home directory to keep locks in";
      return facts;
    }
    facts.path = *found;
  }
  look_at_what_is_there(facts);
  try {
    const auto directory = Directory::open(facts.path, ours, Directory::Missing::accept);
    if (!directory) {
      look_at_parent(ours, facts);
      return facts;
    }
    look_at_room(facts.path, facts);
    if (!facts.can_be_written) return facts;
    look_at_state(*directory, facts);
    if (facts.has_state) look_at_gate(*directory, timeout, facts);
    look_at_fences(*directory, facts);
    look_at_files(*directory, facts);
  } catch (const Failure& failure) {
    // A shortage in this process says nothing about the directory.
    if (failure.kind() == Failure::Kind::exhausted) throw;
    facts.unusable = failure.what();
  }
  return facts;
}

}  // namespace dlock::local
