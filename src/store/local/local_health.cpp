// Examines the directory of a local store. It changes nothing and creates nothing.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "store/checks.hpp"
#include "store/local/files.hpp"
#include "store/local/local_store.hpp"
#include "store/local/local_waiting.hpp"
#include "store/local/record_file.hpp"
#include "store/local/state_folder.hpp"
#include "store/local/text_files.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

// What the checks look at.
struct CheckedDirectory {
  std::string path;
  bool is_ours = false;                // the default one
  milliseconds timeout{0};             // how long to wait for a mutex
  std::optional<Failure> unusable;     // why the directory cannot be used for locks
  std::optional<Directory> directory;  // nothing: it does not exist
};

std::string parent_of(const std::string& path) {
  return std::filesystem::path(path).parent_path();
}

// The path, or what exists of it.
std::string existing_part_of(std::string path) {
  struct stat status {};
  while (::lstat(path.c_str(), &status) != 0) path = parent_of(path);
  return path;
}

// By the effective user. A container engine that does not know faccessat2 refuses it with
// EPERM, and glibc then asks no further.
bool may(int mode, const std::string& path) {
  return ::faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0 ||
         (errno == EPERM && ::access(path.c_str(), mode) == 0);
}

// A message and the advice that follows it.
std::pair<std::string, std::string> parts_of(const std::string& message) {
  const auto end = message.find("; ");
  if (end == std::string::npos) return {message, ""};
  return {message.substr(0, end), message.substr(end + 2)};
}

void unusable(const CheckedDirectory& place, CheckReport& say) {
  auto [message, advice] = parts_of(place.unusable->what());
  struct stat status {};
  const bool is_there = ::lstat(place.path.c_str(), &status) == 0;
  if (is_there && !S_ISDIR(status.st_mode)) advice = "name the directory itself";
  if (advice.empty()) {
    advice = "use your own directory, or one that is set up as shared (chmod 2770)";
  }
  say.error(message, advice);
}

void missing(const CheckedDirectory& place, CheckReport& say) {
  const auto path = printable(place.path);
  const auto parent = existing_part_of(place.path);
  // Only the last part is created, but for the default directory.
  const bool is_created = place.is_ours || parent == parent_of(place.path);
  if (is_created && may(W_OK | X_OK, parent)) {
    return say.info(path + " does not exist yet",
                    "nothing to do: the first lock creates it");
  }
  say.error(path + " does not exist, and cannot be created in " + printable(parent),
            "create it as a user with permission (install -d -m 700), or name another "
            "one (--store local:/dir)");
}

void directory(const CheckedDirectory& place, CheckReport& say) {
  const auto path = printable(place.path);
  if (place.unusable) return unusable(place, say);
  if (!place.directory) return missing(place, say);
  if (may(R_OK | W_OK | X_OK, place.path)) return say.ok(path);
  if (errno == EROFS) {
    return say.error(path + " is on a file system that is mounted read-only",
                     "mount it with permission to write, or use a directory elsewhere");
  }
  say.error("this user cannot write to " + path,
            "chmod u+rwx " + printable_command({place.path}, 4096) +
                ", or, if it is shared, join its group");
}

void file_system(const CheckedDirectory& place, CheckReport& say) {
  if (!place.directory) return;
  auto name = printable(mount_type_of(place.directory->fd()));
  if (name.empty()) name = "local";
  // systemd-tmpfiles and the like clean up there.
  for (const std::string cleaned : {"/tmp", "/var/tmp"}) {
    if (!place.path.starts_with(cleaned + "/")) continue;
    return say.info(name + ", below " + cleaned +
                        ", where programs remove what was not used for days: past runs "
                        "and fences of locks are lost then",
                    "if that matters, use a directory elsewhere (/var/lib/NAME)");
  }
  if (name != "tmpfs" && name != "ramfs") return say.ok(name);
  say.info(name + ", in memory: a reboot loses past runs and the fences of dlock fence",
           "if that matters, use a directory on a disk");
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

// Whether the mutex is available that every process needs once after boot; why not.
std::optional<std::string> busy(const CheckedDirectory& place) {
  SessionsFile sessions(*place.directory, true);
  const auto start = Clock::now();
  while (!sessions.try_lock(setup_mutex)) {
    if (Clock::now() - start >= place.timeout) {
      return mutex_unavailable(sessions, setup_mutex, place.timeout).what();
    }
    constexpr useconds_t pause = 1000;
    ::usleep(pause);
  }
  return std::nullopt;
}

// Reads all of the state of this boot.
void state(const CheckedDirectory& place, CheckReport& say) {
  if (!place.directory) return;
  std::optional<std::string> mended;  // what the next run mends
  int locks = 0;
  try {
    const auto folder = open_state_folder(*place.directory);
    if (!folder) return say.ok("none since boot");
    try {
      head_of(*folder);
    } catch (const Damaged& failure) {
      mended = failure.what();
    }
    for (const auto& file : folder->names()) {
      const auto kept = kind_of(file);
      if (kept == StateKind::lock) ++locks;
      if (kept) check(*folder, file, *kept);
    }
  } catch (const Failure& failure) {
    return say.error(
        parts_of(let_pass(failure).what()).first,
        "the next run under that lock replaces the file, unless it may contain a lease "
        "by hand: then move it away; past runs and fences are kept");
  }
  if (const auto why = busy(place)) {
    return say.error(*why, "check what that process waits for; continue it or end it");
  }
  if (mended) {
    return say.info(parts_of(*mended).first,
                    "nothing to do: the next run with a new lock name writes it anew");
  }
  say.ok("intact, ", counted(locks, "lock"), " known");
}

void fences(const CheckedDirectory& place, CheckReport& say) {
  if (!place.directory) return;
  try {
    Registers(*place.directory).check();
  } catch (const Failure& failure) {
    say.error(parts_of(let_pass(failure).what()).first,
              "restore it from a backup, or remove it if no fence register matters");
  }
  const auto far = record::fence_far_ahead(RunsLog(*place.directory).text(), wall_now());
  if (far) judge_fences({{place.path + "/runs.jsonl", std::to_string(far->number)}}, say);
}

// Whether a draft may still be in use: writing one takes no longer.
bool is_young(const Directory& directory, const std::string& name) {
  constexpr std::int64_t seconds = 60;
  struct stat status {};
  return ::fstatat(directory.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
         std::chrono::seconds(status.st_mtim.tv_sec + seconds) > wall_now();
}

// Whether it was used since boot.
bool has_state(const Directory& directory) {
  return std::ranges::count(directory.names(), state_folder_name()) > 0;
}

std::string list_of(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const auto& name : names) shown.push_back(printable(name, 100));
  return listed(shown, 5);
}

void files(const CheckedDirectory& place, CheckReport& say) {
  if (!place.directory) return;
  std::vector<std::string> stale;      // never removed by dlock
  std::vector<std::string> abandoned;  // that the next run removes
  const auto current = state_folder_name();
  const bool is_in_use = has_state(*place.directory);
  const SessionsFile sessions(*place.directory, false);
  for (const auto& name : place.directory->names()) {
    if (const auto session = session_of_wake_socket(name)) {
      const bool lives = sessions.exists() && sessions.is_locked(*session);
      if (!lives) abandoned.push_back(name);
    } else if (is_state_folder_name(name) && !name.starts_with(current)) {
      // They are removed when the folder of this boot is created.
      (is_in_use ? stale : abandoned).push_back(name);
    } else if (name.ends_with(".new") && !is_young(*place.directory, name)) {
      abandoned.push_back(name);
    }
  }
  if (!stale.empty()) {
    return say.warning("unused, and not removed automatically: " + list_of(stale),
                       "remove them from " + printable(place.path));
  }
  if (abandoned.empty()) return say.ok("none left over");
  say.info("left over from killed processes: " + list_of(abandoned),
           "nothing to do: the next run removes them");
}

// The room on the file system for this user. The least is space for the files of some
// hundred new locks.
void space(const CheckedDirectory& place, CheckReport& say) {
  constexpr std::uint64_t few_files = 100;
  constexpr std::uint64_t little = 16 << 20;
  constexpr std::uint64_t too_little = 1 << 20;
  constexpr const char* advice = "free space on that file system";
  struct statvfs status {};
  if (::statvfs(existing_part_of(place.path).c_str(), &status) != 0) return;
  const std::uint64_t bytes = status.f_bavail * status.f_frsize;
  const auto left = shown_size(bytes) + " free";
  // Where files are not counted, there is room for them.
  const auto files = status.f_files > 0 ? status.f_favail : few_files;
  if (bytes < too_little) return say.error(left + ": too little for new locks", advice);
  if (files == 0) {
    return say.error("no more files can be created (no inodes left)", advice);
  }
  if (bytes < little) return say.warning(left, advice);
  if (files >= few_files) return say.ok(left);
  say.warning(joined("only ", files, " more files can be created"), advice);
}

constexpr Check<CheckedDirectory> checks[] = {
    {"directory", directory, "", true},
    {"file-system", file_system},
    {"state", state},
    {"fences", fences},
    {"files", files},
    {"space", space},
};

CheckedDirectory place_at(const ExaminationOrder& order) {
  CheckedDirectory place;
  place.path = order.url.path;
  place.timeout = order.timeout;
  place.is_ours = place.path.empty();
  try {
    Files files(order.context, place.path, order.timeout);
    place.path = files.path();
    place.directory =
        Directory::open(place.path, place.is_ours, Directory::Missing::accept);
    if (!place.directory || has_state(*place.directory)) return place;
    const SessionsFile sessions(*place.directory, false);
    if (sessions.exists()) refuse_if_used_elsewhere(*place.directory, sessions);
  } catch (const Failure& failure) {
    place.directory.reset();
    // A shortage in this process says nothing about the directory.
    place.unusable = let_pass(failure);
  }
  return place;
}

}  // namespace

asio::awaitable<Examination> examine(const ExaminationOrder& order) {
  auto place = place_at(order);
  try {
    co_return judged(checks, place);
  } catch (const Failure& failure) {
    // What is in the directory cannot be used.
    place.unusable = let_pass(failure);
  }
  co_return judged(checks, place);
}

}  // namespace dlock::local
