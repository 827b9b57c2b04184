#include "store/local/local_health.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "store/local/local_store.hpp"
#include "store/local/local_waiting.hpp"
#include "store/local/record_file.hpp"
#include "store/local/state_folder.hpp"
#include "store/local/text_files.hpp"
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

void look_at_room(const std::string& path, DirectoryFacts& facts) {
  struct statvfs status {};
  if (::statvfs(path.c_str(), &status) != 0) return;
  Room room;
  room.bytes = std::uint64_t{status.f_bavail} * status.f_frsize;
  if (status.f_files > 0) room.files = status.f_favail;
  facts.room = room;
}

// By the effective user. A container engine that does not know faccessat2 refuses it with
// EPERM, and glibc then asks no further.
bool may(int mode, const std::string& path) {
  return ::faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0 ||
         (errno == EPERM && ::access(path.c_str(), mode) == 0);
}

void look_at_parent(bool ours, DirectoryFacts& facts) {
  facts.parent = parent_of(facts.path);
  facts.parents_are_missing = !ours && !exists(facts.parent);
  while (!exists(facts.parent)) facts.parent = parent_of(facts.parent);
  facts.can_be_created = may(W_OK | X_OK, facts.parent);
  look_at_room(facts.parent, facts);
}

void look_at_path(DirectoryFacts& facts) {
  struct stat status {};
  if (::lstat(facts.path.c_str(), &status) != 0) return;
  facts.exists = true;
  facts.is_link_or_file = !S_ISDIR(status.st_mode);
  facts.can_be_written = may(R_OK | W_OK | X_OK, facts.path);
  struct statfs system {};
  if (::statfs(facts.path.c_str(), &system) != 0) return;
  facts.is_read_only = (system.f_flags & ST_RDONLY) != 0;
  const auto type = static_cast<unsigned long>(system.f_type);
  for (const auto& known : file_systems) {
    if (known.type != type) continue;
    facts.file_system = known.name;
    facts.forgets = known.forgets;
  }
}

// Checks that a file of the state folder matches its name. Throws Failure if not.
void check(const Directory& folder, const std::string& file, StateKind kept) {
  const RecordFile record(folder, file, RecordFile::Access::read);
  if (!record.exists()) return;  // removed just now
  const auto found = stored_in(record, kept);
  if (!found || key_of(found->name, kept).file != file) {
    throw damaged(record.path(), "damaged");
  }
}

// Reads all of the state.
void look_at_state(const Directory& directory, DirectoryFacts& facts) {
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
      const auto kept = kind_of(file);
      if (kept == StateKind::lock) ++facts.locks;
      if (kept) check(*folder, file, *kept);
    }
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::exhausted) throw;
    facts.state = failure.what();
  }
}

// Whether the mutex is available that every process needs once after boot.
void look_at_gate(const Directory& directory, milliseconds timeout,
                  DirectoryFacts& facts) {
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

void look_at_fences(const Directory& directory, DirectoryFacts& facts) {
  try {
    Registers(directory).check();
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::exhausted) throw;
    facts.fences = failure.what();
  }
  facts.fence_far_ahead = record::fence_far_ahead(RunsLog(directory).text(), wall_now());
}

// Whether a draft may still be in use: writing one takes no longer.
bool is_young(const Directory& directory, const std::string& name) {
  constexpr std::int64_t seconds = 60;
  struct stat status {};
  return ::fstatat(directory.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
         std::chrono::seconds(status.st_mtim.tv_sec + seconds) > wall_now();
}

void look_at_files(const Directory& directory, DirectoryFacts& facts) {
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

DirectoryFacts facts_of(const std::string& path, milliseconds timeout) {
  DirectoryFacts facts;
  facts.path = path;
  const bool ours = path.empty();
  if (ours) {
    const auto found = default_directory(surroundings());
    if (!found) {
      facts.unusable =
          "no home directory to keep locks in; set HOME, or name a directory (--store "
          "local:/dir)";
      return facts;
    }
    facts.path = *found;
  }
  look_at_path(facts);
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

namespace {

constexpr std::uint64_t mebibyte = 1u << 20u;

// Space for the files of some hundred new locks.
constexpr std::uint64_t too_little = mebibyte;
constexpr std::uint64_t little = 16 * mebibyte;
constexpr std::uint64_t few_files = 100;

// A message and the advice that follows it.
std::pair<std::string, std::string> parts_of(const std::string& message,
                                             const std::string& usual_advice = "") {
  const auto end = message.find("; ");
  if (end == std::string::npos) return {message, usual_advice};
  return {message.substr(0, end), message.substr(end + 2)};
}

void missing(const DirectoryFacts& facts, CheckReport& say) {
  const auto path = printable(facts.path);
  if (facts.parents_are_missing) {
    return say.error(path + " does not exist, and neither does its parent directory",
                     "create it: install -d -m 700 " + path);
  }
  if (facts.can_be_created) {
    return say.info(path + " does not exist yet",
                    "nothing to do: the first lock creates it");
  }
  say.error(
      path + " does not exist, and cannot be created in " + printable(facts.parent),
      "create it as a user with permission, or name another one (--store local:/dir)");
}

void directory(const DirectoryFacts& facts, CheckReport& say) {
  const auto path = printable(facts.path);
  if (facts.unusable) {
    auto [message, advice] =
        parts_of(*facts.unusable,
                 "use your own directory, or one that is set up as shared (chmod 2770)");
    if (facts.is_link_or_file) advice = "name the directory itself";
    return say.error(message, advice);
  }
  if (!facts.exists) return missing(facts, say);
  if (facts.is_read_only) {
    return say.error(path + " is on a file system that is mounted read-only",
                     "mount it with permission to write, or use a directory elsewhere");
  }
  if (facts.can_be_written) return say.ok(path);
  say.error("this user cannot write to " + path,
            "chmod u+rwx " + printable_command({facts.path}, 4096) +
                ", or, if it is shared, join its group");
}

void file_system(const DirectoryFacts& facts, CheckReport& say) {
  if (!facts.exists) return;
  const auto name = facts.file_system.empty() ? "local" : facts.file_system;
  // systemd-tmpfiles and the like clean up there.
  for (const std::string place : {"/tmp", "/var/tmp"}) {
    if (!facts.path.starts_with(place + "/")) continue;
    return say.info(name + ", below " + place +
                        ", where programs remove what was not used for days: past runs "
                        "and fences of locks are lost then",
                    "if that matters, use a directory elsewhere (/var/lib/NAME)");
  }
  if (!facts.forgets) return say.ok(name);
  say.info(name + ", in memory: a reboot loses past runs and the fences of dlock fence",
           "if that matters, use a directory on a disk");
}

void state(const DirectoryFacts& facts, CheckReport& say) {
  if (!facts.exists) return;
  if (facts.state) {
    return say.error(
        parts_of(*facts.state).first,
        "the next run under that lock replaces the file, unless it may contain a lease "
        "by hand: then move it away; past runs and fences are kept");
  }
  if (facts.busy) {
    return say.error(*facts.busy,
                     "check what that process waits for; continue it or end it");
  }
  if (facts.mended) {
    return say.info(parts_of(*facts.mended).first,
                    "nothing to do: the next run with a new lock name writes it anew");
  }
  if (!facts.has_state) return say.ok("none since boot");
  say.ok("intact, " + std::to_string(facts.locks) +
         (facts.locks == 1 ? " lock" : " locks") + " known");
}

void fences(const DirectoryFacts& facts, CheckReport& say) {
  if (facts.fences) {
    say.error(parts_of(*facts.fences).first,
              "restore it from a backup, or remove it if no fence register matters");
  }
  if (!facts.fence_far_ahead) return;
  judge_fences(
      {{facts.path + "/runs.jsonl", std::to_string(facts.fence_far_ahead->number)}}, say);
}

std::string list_of(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const auto& name : names) shown.push_back(printable(name, 100));
  return listed(shown, 5);
}

void files(const DirectoryFacts& facts, CheckReport& say) {
  if (!facts.exists) return;
  if (!facts.stale.empty()) {
    return say.warning("unused, and not removed automatically: " + list_of(facts.stale),
                       "remove them from " + printable(facts.path));
  }
  if (facts.abandoned.empty()) return say.ok("none left over");
  say.info("left over from killed processes: " + list_of(facts.abandoned),
           "nothing to do: the next run removes them");
}

std::string shown(std::uint64_t bytes) {
  constexpr std::uint64_t gibibyte = 1024 * mebibyte;
  if (bytes >= gibibyte) return std::to_string(bytes / gibibyte) + " GiB";
  if (bytes >= mebibyte) return std::to_string(bytes / mebibyte) + " MiB";
  return std::to_string(bytes / 1024) + " KiB";
}

void space(const DirectoryFacts& facts, CheckReport& say) {
  if (!facts.room) return;
  const auto left = shown(facts.room->bytes) + " free";
  const auto files = facts.room->files.value_or(few_files);
  constexpr const char* advice = "free space on that file system";
  if (facts.room->bytes < too_little) {
    return say.error(left + ": too little for new locks", advice);
  }
  if (files == 0) {
    return say.error("no more files can be created (no inodes left)", advice);
  }
  if (facts.room->bytes < little) return say.warning(left, advice);
  if (files >= few_files) return say.ok(left);
  say.warning("only " + std::to_string(files) + " more files can be created", advice);
}

constexpr Check<DirectoryFacts> checks[] = {
    {"directory", directory, "", true},
    {"file-system", file_system},
    {"state", state},
    {"fences", fences},
    {"files", files},
    {"space", space},
};

}  // namespace

std::vector<Finding> findings_of(const DirectoryFacts& facts) {
  return judged(checks, facts);
}

asio::awaitable<Examination> examine(const ExaminationOrder& order, asio::io_context&,
                                     Wakeup&) {
  Examination examination;
  examination.findings = findings_of(facts_of(order.url.path, order.timeout));
  co_return examination;
}

}  // namespace dlock::local
