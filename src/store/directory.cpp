#include "store/directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "util/process.hpp"
#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock {
namespace {

// Whether a system call that fails so may succeed a moment later.
bool may_pass(int error) {
  return error == EAGAIN || error == EINTR || error == EBUSY || error == ETXTBSY ||
         error == ESTALE;
}

// The Failure for an errno. `ours`: it is the default directory, which a service account
// may not be able to create, for example a web server's whose home belongs to root.
Failure cannot(const char* verb, const std::string& path, bool ours) {
  auto failure = failure_of(
      errno, "cannot " + std::string(verb) + " the directory " + printable(path));
  const bool may_be_elsewhere = failure.kind() == Failure::Kind::rejected ||
                                failure.kind() == Failure::Kind::misconfigured;
  if (!ours || !may_be_elsewhere) return failure;
  return Failure(failure.kind(), std::string(failure.what()) +
                                     "; name a directory with --store local:/DIR");
}

void make_directory(const std::string& path, bool ours) {
  if (::mkdir(path.c_str(), 0700) == 0) {
    // The caller's umask may have removed even the owner's permissions.
    ::chmod(path.c_str(), 0700);
  } else if (errno != EEXIST) {
    const bool is_parent_missing = errno == ENOENT;
    const auto failure = cannot("create", path, ours);
    const auto parent = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
    if (!is_parent_missing || ::access(parent.c_str(), F_OK) == 0) throw failure;
    throw Failure(failure.kind(), std::string(failure.what()) + "; create " +
                                      printable(parent) + " first");
  }
}

void make_parents(const std::string& path) {
  for (auto slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const auto parent = path.substr(0, slash);
    struct stat status {};
    if (::stat(parent.c_str(), &status) != 0) make_directory(parent, true);
  }
}

// Where a link leads that root or this user has made, as systemd makes the
// StateDirectory= of a unit with DynamicUser=; `path` itself if it is anything else.
std::string end_of_trusted_link(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return path;
  if (status.st_uid != 0 && status.st_uid != ::geteuid()) return path;
  char* const end = ::realpath(path.c_str(), nullptr);
  std::string resolved(end == nullptr ? path : end);
  std::free(end);
  return resolved;
}

// Its ownership. Throws Failure if it is not safe to use.
Ownership checked(const std::string& path, const struct stat& status, bool ours) {
  const auto refuse = [&](const std::string& why) {
    throw Failure::rejected("the directory " + printable(path) +
                            " is not safe to use: " + why);
  };
  const auto me = ::geteuid();
  if ((status.st_mode & S_IWOTH) != 0) {
    refuse("everyone can write to it; chmod o-w " + printable(path) +
           ", or name a directory in it");
  }
  const bool group_writes = (status.st_mode & S_IWGRP) != 0;
  // A shared directory is setgid, so that files created in it belong to its group.
  const bool shared = group_writes && (status.st_mode & S_ISGID) != 0;
  // With the sticky bit, users cannot replace or remove the files of others.
  if (shared && (status.st_mode & S_ISVTX) != 0) {
    throw Failure::rejected("the directory " + printable(path) +
                            " cannot be shared: it has the sticky bit; chmod -t " +
                            printable(path));
  }
  if (ours && status.st_uid != me) {
    refuse("it belongs to " + user_name(status.st_uid));
  }
  // The owner can change anything in it, so it must be trusted.
  if (status.st_uid != me && status.st_uid != 0) {
    refuse("it belongs to " + user_name(status.st_uid) +
           (shared ? ", and only root can set up a shared one" : ""));
  }
  return {shared, me, status.st_uid, status.st_gid};
}

// While this exists, files are created with exactly the requested mode (umask 0).
class NoUmask {
 public:
  NoUmask() : before_(::umask(0)) {}
  ~NoUmask() { ::umask(before_); }
  NoUmask(const NoUmask&) = delete;
  NoUmask& operator=(const NoUmask&) = delete;

 private:
  mode_t before_;
};

}  // namespace

FileIdentity identity_of(const struct stat& status) {
  return {status.st_dev, status.st_ino};
}

Surroundings surroundings() {
  Surroundings found;
  found.uid = ::geteuid();
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text == nullptr ? "" : text);
  };
  found.xdg_state_home = value("XDG_STATE_HOME");
  found.home = value("HOME");
  if (found.home.empty()) found.home = home_directory(found.uid);
  return found;
}

std::optional<std::string> default_directory(const Surroundings& surroundings) {
  if (surroundings.uid == 0) return "/var/lib/dlock";
  const auto& state = surroundings.xdg_state_home;
  if (!state.empty() && state.front() == '/') return state + "/dlock";
  const auto& home = surroundings.home;
  // Containers set HOME to / for a user without an account; only root can write there.
  if (home.empty() || home.front() != '/' || home == "/") return std::nullopt;
  return home + "/.local/state/dlock";
}

void throw_failure_of(int error_number, const std::string& what) {
  if (error_number == EROFS) {
    throw Failure::misconfigured(
        std::string(failure_of(error_number, what).what()) +
        "; name a directory that can be written with --store local:/DIR, or "
        "make this one a StateDirectory= of the unit");
  }
  if (!may_pass(error_number)) throw failure_of(error_number, what);
  // Files are opened with O_NONBLOCK, and would otherwise wait for the end of the lease.
  throw Transient(Failure::Kind::unreachable,
                  error_number == EAGAIN
                      ? what + ": another process has a lease on it (F_SETLEASE)"
                      : failure_of(error_number, what).what());
}

std::string why_unreliable(unsigned long type, const std::string& name) {
  struct Kind {
    unsigned long type;
    const char* name;
  };
  constexpr Kind network[] = {
      {0x6969, "NFS"},      {0x517B, "SMB"},       {0xFF534D42, "CIFS"},
      {0xFE534D42, "SMB"},  {0x01021997, "9P"},    {0x00C36400, "Ceph"},
      {0x5346414F, "AFS"},  {0x6B414653, "AFS"},   {0x73757245, "Coda"},
      {0x01161970, "GFS2"}, {0x7461636F, "OCFS2"}, {0x0BD00BD0, "Lustre"},
      {0x47504653, "GPFS"}, {0x564C, "NCP"},       {0x19830326, "BeeGFS"},
  };
  for (const auto& kind : network) {
    if (kind.type != type) continue;
    return "a network file system (" + std::string(kind.name) +
           "), where locks are not reliable";
  }
  constexpr unsigned long fuse = 0x65735546;
  if (type != fuse || name == "fuseblk") return "";
  if (name == "virtiofs") {
    return "a file system of the host of this virtual machine (virtiofs), which does not "
           "see the kernel's locks";
  }
  return "a FUSE file system (" + (name.empty() ? "fuse" : printable(name, 60)) +
         "): the program behind it, and other users of its files, may not see the "
         "kernel's locks";
}

// "36 35 98:0 /root /mount rw,noatime master:1 - ext3 /dev/root rw": the number comes
// first and the type after " - ".
std::string mount_type_in(std::string_view mountinfo, std::string_view number) {
  while (!mountinfo.empty()) {
    const auto line = mountinfo.substr(0, mountinfo.find('\n'));
    mountinfo.remove_prefix(std::min(line.size() + 1, mountinfo.size()));
    constexpr std::string_view mark = " - ";
    const auto at = line.find(mark);
    if (line.substr(0, line.find(' ')) != number || at == std::string_view::npos)
      continue;
    const auto rest = line.substr(at + mark.size());
    return std::string(rest.substr(0, rest.find(' ')));
  }
  return "";
}

std::string mount_type_of(int fd) {
  constexpr std::string_view mark = "mnt_id:\t";
  const auto info = text_of("/proc/self/fdinfo/" + std::to_string(fd));
  const auto at = info.find(mark);
  if (at == std::string::npos) return "";
  const auto begin = at + mark.size();
  return mount_type_in(
      text_of("/proc/self/mountinfo"),
      std::string_view(info).substr(begin, info.find('\n', begin) - begin));
}

std::optional<Directory> Directory::open(const std::string& named, bool ours,
                                         Missing missing) {
  constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  const auto path = end_of_trusted_link(named);
  Fd fd(::open(path.c_str(), flags));
  if (!fd && errno == ENOENT) {
    if (missing == Missing::accept) return std::nullopt;
    if (ours) make_parents(path);
    make_directory(path, ours);
    fd = Fd(::open(path.c_str(), flags));
  }
  if (!fd) {
    if (errno == ELOOP || errno == ENOTDIR) {
      throw Failure::misconfigured(
          printable(path) + " is not a directory (another user's link is not followed)");
    }
    if (may_pass(errno)) throw_failure_of(errno, "cannot open " + printable(path));
    throw cannot("open", path, ours);
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    throw failure_of(errno, "cannot examine the directory " + printable(path));
  }
  const auto ownership = checked(path, status, ours);
  struct statfs file_system {};
  if (::fstatfs(fd.get(), &file_system) == 0) {
    const auto type = static_cast<unsigned long>(file_system.f_type);
    // The mounts are only read where the answer depends on them.
    const auto name = why_unreliable(type, "").empty() ? "" : mount_type_of(fd.get());
    if (const auto why = why_unreliable(type, name); !why.empty()) {
      throw Failure::misconfigured(
          "the directory " + printable(path) + " is on " + why +
          "; name a directory on a local disk (--store local:/DIR" +
          (ours && ::geteuid() != 0 ? ", or XDG_STATE_HOME" : "") + "), or a server");
    }
  }
  return Directory(std::move(fd), path, identity_of(status), ownership);
}

std::string Directory::pinned(const std::string& name) const {
  return "/proc/self/fd/" + std::to_string(fd()) + "/" + name;
}

bool leads_to(int directory, const char* name, const FileIdentity& identity) {
  constexpr int most_tries = 2;
  for (int tries = 0; tries < most_tries; ++tries) {
    struct stat named {};
    if (::fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) == 0) {
      return identity_of(named) == identity;
    }
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) break;
  }
  return false;
}

bool Directory::is_in_place() const {
  return leads_to(AT_FDCWD, path_.c_str(), identity_);
}

bool Directory::is_made_by_dlock(const struct stat& status) const {
  if (ownership_.shared) {
    const mode_t needed = S_ISDIR(status.st_mode) ? 0770 : 0660;
    return status.st_gid == ownership_.group && (status.st_mode & 0777) == needed;
  }
  return (status.st_uid == ownership_.caller || status.st_uid == ownership_.owner) &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::vector<std::string> Directory::names() const {
  std::vector<std::string> names;
  // A separate file description, because it contains the position in the list.
  Fd again(::openat(fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* entries = again ? ::fdopendir(again.get()) : nullptr;
  if (entries == nullptr) return names;
  again.release();  // closed with the list
  while (const dirent* entry = ::readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(entries);
  return names;
}

std::optional<Directory> Directory::folder(const std::string& name,
                                           Missing missing) const {
  constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  Fd folder(::openat(fd(), name.c_str(), flags));
  if (!folder && errno == ENOENT) {
    if (missing == Missing::accept) return std::nullopt;
    const NoUmask exactly;
    if (::mkdirat(fd(), name.c_str(), folder_mode()) != 0 && errno != EEXIST) {
      throw_failure_of(errno, "cannot create " + printable(path_of(name)));
    }
    folder = Fd(::openat(fd(), name.c_str(), flags));
  }
  const auto refuse = [&](const char* why) {
    throw Failure::misconfigured(printable(path_of(name)) + why +
                                 "; dlock will not touch it");
  };
  if (!folder) {
    if (errno == ELOOP || errno == ENOTDIR) refuse(" is not a directory");
    throw_failure_of(errno, "cannot open " + printable(path_of(name)));
  }
  struct stat status {};
  if (::fstat(folder.get(), &status) != 0) {
    throw_failure_of(errno, "cannot examine " + printable(path_of(name)));
  }
  if (!is_made_by_dlock(status)) refuse(" has an owner or mode that dlock did not set");
  return Directory(std::move(folder), path_of(name), identity_of(status), ownership_);
}

// O_NONBLOCK: a FIFO in its place must not block us.
constexpr int safely = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

Fd Directory::open_file(const std::string& name, int flags, bool create,
                        struct stat* status) const {
  Fd file(::openat(fd(), name.c_str(), flags | safely));
  if (!file && errno == ENOENT) {
    if (!create) return {};
    const NoUmask exactly;
    file =
        Fd(::openat(fd(), name.c_str(), flags | safely | O_CREAT | O_EXCL, file_mode()));
    if (!file && errno == EEXIST) {
      file =
          Fd(::openat(fd(), name.c_str(), flags | safely));  // another process was faster
    }
  }
  if (!file) {
    if (errno == ELOOP || errno == EISDIR || errno == ENXIO) {
      throw Failure::misconfigured(printable(path_of(name)) +
                                   " is not a regular file; dlock will not touch it");
    }
    throw_failure_of(errno, "cannot open " + printable(path_of(name)));
  }
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) {
    throw_failure_of(errno, "cannot examine " + printable(path_of(name)));
  }
  check_file(found, name);
  if (status != nullptr) *status = found;
  return file;
}

Fd Directory::create_file(const std::string& name, int flags) const {
  const NoUmask exactly;
  Fd file(::openat(fd(), name.c_str(), flags | safely | O_CREAT | O_EXCL, file_mode()));
  if (!file) throw_failure_of(errno, "cannot create " + printable(path_of(name)));
  return file;
}

void Directory::check_file(const struct stat& status, const std::string& name) const {
  const auto refuse = [&](const char* why) {
    throw Failure::misconfigured(printable(path_of(name)) + why +
                                 "; dlock will not touch it");
  };
  if (!S_ISREG(status.st_mode) || status.st_nlink > 1) {
    refuse(" is not a regular file with a single link");
  }
  if (!is_made_by_dlock(status)) refuse(" has an owner or mode that dlock did not set");
}

}  // namespace dlock
