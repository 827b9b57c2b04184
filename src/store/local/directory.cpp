#include "store/local/directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "lock/errors.hpp"
#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock::local {
namespace {

void make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) {
    // The caller's umask may have taken even our own rights away.
    ::chmod(path.c_str(), 0700);
  } else if (errno != EEXIST) {
    throw failure_of(errno, "cannot create the directory " + printable(path));
  }
}

void make_parents(const std::string& path) {
  for (auto slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const auto parent = path.substr(0, slash);
    struct stat status {};
    if (::stat(parent.c_str(), &status) != 0) make_directory(parent);
  }
}

// The mode that files in it get, or the reason why it cannot be used.
mode_t checked(const std::string& path, const struct stat& status, bool ours) {
  const auto refuse = [&](const std::string& why) {
    throw Failure(Failure::Kind::rejected,
                  "the directory " + printable(path) + " is not safe to use: " + why);
  };
  const auto me = ::geteuid();
  if ((status.st_mode & S_IWOTH) != 0) refuse("everybody may write to it");
  const bool group_writes = (status.st_mode & S_IWGRP) != 0;
  // A shared directory is one that somebody set up as such, so that what is made in it
  // belongs to its group.
  const bool shared = group_writes && (status.st_mode & S_ISGID) != 0;
  if (ours && status.st_uid != me) {
    refuse("it belongs to " + user_name(status.st_uid));
  }
  if (status.st_uid != me && status.st_uid != 0 && !shared) {
    refuse("it belongs to " + user_name(status.st_uid) +
           " and is not shared (chmod 2770 shares it with its group)");
  }
  return shared ? 0660 : 0600;
}

}  // namespace

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
  if (surroundings.home.empty() || surroundings.home.front() != '/') return std::nullopt;
  return surroundings.home + "/.local/state/dlock";
}

bool is_network_file_system(unsigned long type) {
  constexpr unsigned long network[] = {
      0x6969,      // NFS
      0x517B,      // SMB
      0xFF534D42,  // CIFS
      0xFE534D42,  // SMB2
      0x01021997,  // 9P
      0x65735546,  // FUSE
      0x00C36400,  // Ceph
      0x5346414F,  // AFS
      0x6B414653,  // kAFS
      0x73757245,  // Coda
      0x01161970,  // GFS2
      0x7461636F,  // OCFS2
      0x0BD00BD0,  // Lustre
      0x47504653,  // GPFS
      0x564C,      // NCP
      0x19830326,  // BeeGFS
  };
  return std::find(std::begin(network), std::end(network), type) != std::end(network);
}

std::optional<Directory> Directory::open(const std::string& path, bool ours,
                                         Missing missing) {
  constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  Fd fd(::open(path.c_str(), flags));
  if (!fd && errno == ENOENT) {
    if (missing == Missing::accept) return std::nullopt;
    if (ours) make_parents(path);
    make_directory(path);
    fd = Fd(::open(path.c_str(), flags));
  }
  if (!fd) {
    if (errno == ELOOP || errno == ENOTDIR) {
      throw Failure(Failure::Kind::misconfigured,
                    printable(path) + " is not a directory (nor may it be a link)");
    }
    throw failure_of(errno, "cannot open the directory " + printable(path));
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    throw failure_of(errno, "cannot examine the directory " + printable(path));
  }
  const auto file_mode = checked(path, status, ours);
  struct statfs file_system {};
  if (::fstatfs(fd.get(), &file_system) == 0 &&
      is_network_file_system(static_cast<unsigned long>(file_system.f_type))) {
    throw Failure(Failure::Kind::misconfigured,
                  "the directory " + printable(path) +
                      " is on a network file system, where locks prove nothing; use a "
                      "local one, or a server as store");
  }
  return Directory(std::move(fd), path, file_mode);
}

std::string Directory::pinned(const std::string& name) const {
  return "/proc/self/fd/" + std::to_string(fd()) + "/" + name;
}

bool Directory::is_in_place() const {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd(), &opened) == 0 && ::lstat(path_.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

Fd Directory::open_file(const std::string& name, int flags, bool create) const {
  const auto describe = [&] { return printable(path_of(name)); };
  // O_NONBLOCK: a FIFO that somebody put there must not hold us up.
  flags |= O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  Fd file(::openat(fd(), name.c_str(), flags));
  if (!file && errno == ENOENT) {
    if (!create) return {};
    file = Fd(::openat(fd(), name.c_str(), flags | O_CREAT | O_EXCL, file_mode_));
    if (file) {
      ::fchmod(file.get(), file_mode_);  // whatever the umask is
    } else if (errno == EEXIST) {
      file = Fd(::openat(fd(), name.c_str(), flags));  // somebody was quicker
    }
  }
  if (!file) {
    if (errno == ELOOP || errno == EISDIR || errno == ENXIO) {
      throw Failure(Failure::Kind::misconfigured,
                    describe() + " is not a plain file; dlock will not touch it");
    }
    throw failure_of(errno, "cannot open " + describe());
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw failure_of(errno, describe());
  if (!S_ISREG(status.st_mode) || status.st_nlink > 1) {
    throw Failure(Failure::Kind::misconfigured,
                  describe() +
                      " is not a plain file with one name; dlock will not "
                      "touch it");
  }
  return file;
}

}  // namespace dlock::local
