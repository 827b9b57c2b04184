#include "store/local/examine.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "store/local/database.hpp"
#include "store/local/directory.hpp"
#include "store/local/keys.hpp"
#include "store/local/limit_rules.hpp"
#include "store/local/registers.hpp"
#include "store/local/run_records.hpp"
#include "store/local/sessions.hpp"
#include "store/local/state.hpp"
#include "store/local/wake_socket.hpp"
#include "util/process.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

// How long reading the database may take beyond waiting for it.
constexpr milliseconds longest_look{5000};

struct KnownFileSystem {
  unsigned long type;
  const char* name;
  bool forgets;
};

// Those that are common; see statfs(2).
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
  facts.can_be_written =
      ::faccessat(AT_FDCWD, facts.path.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) == 0;
  struct statfs system {};
  if (::statfs(facts.path.c_str(), &system) != 0) return;
  const auto type = static_cast<unsigned long>(system.f_type);
  facts.is_on_network = is_network_file_system(type);
  for (const auto& known : file_systems) {
    if (known.type != type) continue;
    facts.file_system = known.name;
    facts.forgets = known.forgets;
  }
}

void take_turn(Gate& gate, milliseconds timeout) {
  const auto start = Clock::now();
  while (!gate.try_lock(Gate::Access::read)) {
    if (Clock::now() - start >= timeout) throw gate_shut(gate, timeout);
    constexpr useconds_t pause = 1000;
    ::usleep(pause);
  }
}

Failure damaged(const std::string& path, const char* what) {
  return Failure(Failure::Kind::misconfigured, printable(path) + " is damaged (" + what +
                                                   " does not match its checksum)");
}

// Reads all of the database. Returns how many locks it knows; -1 if there is none.
std::int64_t locks_in_database(const Directory& directory, milliseconds timeout) {
  Gate gate(directory, false);
  if (!gate.exists()) return -1;
  take_turn(gate, timeout);
  const auto database = Database::open(directory, Database::Access::read);
  if (!database) return -1;
  const auto path = directory.path_of(Database::file_name());
  Transaction transaction(*database, Database::Access::read);
  transaction.head();
  std::int64_t locks = 0;
  transaction.each("", [&](std::string_view key, std::string_view value) {
    if (is_key_of(Kept::limit, key)) {
      if (!decoded_limit(value)) throw damaged(path, "a limit");
    } else if (is_key_of(Kept::runs, key)) {
      if (!runs_from(value)) throw damaged(path, "a run");
    } else {
      if (!decoded(value)) throw damaged(path, "a state");
      ++locks;
    }
    return true;
  });
  transaction.check_keys();
  return locks;
}

// What the other process has to say, within `timeout`.
std::string heard_from(int pipe, milliseconds timeout) {
  const auto give_up_at = later(Clock::now(), timeout);
  std::string text;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(give_up_at - Clock::now());
    pollfd readable{pipe, POLLIN, 0};
    if (left.count() <= 0) return text;
    if (::poll(&readable, 1, static_cast<int>(left.count())) < 0 && errno != EINTR) {
      return text;
    }
    if (readable.revents == 0) continue;
    char buffer[1024];
    const auto size = ::read(pipe, buffer, sizeof buffer);
    if (size <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(size));
  }
}

[[noreturn]] void report_on_database(const Directory& directory, milliseconds timeout,
                                     int pipe) {
  ::dup2(pipe, STDERR_FILENO);
  try {
    const auto locks = locks_in_database(directory, timeout);
    write_all(pipe, "ok " + std::to_string(locks) + "\n");
  } catch (const Failure& failure) {
    const bool is_busy = failure.kind() == Failure::Kind::unreachable;
    const bool is_short = failure.kind() == Failure::Kind::exhausted;
    const std::string start = is_busy ? "busy " : is_short ? "short " : "";
    write_all(pipe, start + failure.what() + "\n");
  }
  ::_exit(0);
}

// In a process of its own, since to read what is damaged may end the process (see
// say_when_the_map_breaks), or never end.
void look_at_database(const Directory& directory, milliseconds timeout, Facts& facts) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw failure_of(errno, "cannot make a pipe");
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) throw failure_of(errno, "cannot start a process");
  if (child == 0) report_on_database(directory, timeout, writing.get());
  writing.reset();
  auto said = heard_from(reading.get(), timeout + longest_look);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);

  constexpr std::string_view ok = "ok ";
  constexpr std::string_view busy = "busy ";
  constexpr std::string_view lacking = "short ";
  constexpr std::string_view ours = "dlock: ";
  if (said.starts_with(ok)) {
    const auto locks = std::strtoll(said.c_str() + ok.size(), nullptr, 10);
    facts.has_database = locks >= 0;
    facts.locks = static_cast<std::uint64_t>(std::max(locks, 0LL));
    return;
  }
  said.resize(std::min(said.find('\n'), said.size()));
  if (said.starts_with(busy)) {
    facts.busy = said.substr(busy.size());
    return;
  }
  if (said.starts_with(lacking)) {
    throw Failure(Failure::Kind::exhausted, said.substr(lacking.size()));
  }
  // The handler of faults speaks to people.
  if (said.starts_with(ours)) said.erase(0, ours.size());
  if (said.empty()) {
    said = printable(directory.path_of(Database::file_name())) +
           " cannot be read to its end: it is damaged";
  }
  facts.database = said;
}

void look_at_fences(const Directory& directory, Facts& facts) {
  try {
    Registers(directory).check();
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::exhausted) throw;
    facts.fences = failure.what();
  }
}

// Whether it may be in use: what is written to it takes no longer.
bool is_young(const Directory& directory, const std::string& name) {
  constexpr std::int64_t seconds = 60;
  struct stat status {};
  return ::fstatat(directory.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
         std::chrono::seconds(status.st_mtim.tv_sec + seconds) > wall_now();
}

void look_at_files(const Directory& directory, Facts& facts) {
  const auto current = Database::file_name();
  const Gate gate(directory, false);
  for (const auto& name : entries_of(directory.pinned("."))) {
    if (const auto session = session_of_wake_socket(name)) {
      const bool lives = gate.exists() && gate.is_locked(*session);
      if (!lives) facts.abandoned.push_back(name);
    } else if (name.starts_with("state-") && !name.starts_with(current)) {
      // They go when the database of this boot is made.
      (facts.has_database ? facts.stale : facts.abandoned).push_back(name);
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
    look_at_database(*directory, timeout, facts);
    look_at_fences(*directory, facts);
    look_at_files(*directory, facts);
  } catch (const Failure& failure) {
    // What is short is short for doctor, and says nothing of the directory.
    if (failure.kind() == Failure::Kind::exhausted) throw;
    facts.unusable = failure.what();
  }
  return facts;
}

}  // namespace dlock::local
