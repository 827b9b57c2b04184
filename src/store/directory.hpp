// A directory of files that dlock relies on: whether it is safe to use, and where that of
// a local store is.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "util/failure.hpp"
#include "util/fd.hpp"

namespace dlock {

// A failure that may be over in a moment, so the operation is repeated for as long as one
// may take (Files::repeated).
class Transient final : public Failure {
 public:
  using Failure::Failure;
};

// The failure of a system call on one of the store's files: Transient or another Failure,
// to be thrown.
[[noreturn]] void throw_failure_of(int error_number, const std::string& what);

// The part of the environment that decides where files go; a value, so that tests can set
// it.
struct Surroundings {
  uid_t uid = 0;
  std::string home;            // $HOME, or the account's; empty if there is none
  std::string xdg_state_home;  // $XDG_STATE_HOME
};

Surroundings surroundings();

// Root: /var/lib/dlock. Others: $XDG_STATE_HOME/dlock if that is an absolute path, else
// ~/.local/state/dlock. Never /tmp, where anyone could have created it first. Nothing if
// there is no home directory.
std::optional<std::string> default_directory(const Surroundings& surroundings);

// Why locks on a file system do not prove that a process is alive, to follow "is on";
// empty if they do. Of the file systems that a program implements (FUSE), only those of a
// block device are trusted: the kernel does not know what a program makes of a lock, and
// who else uses the files behind it. `type` is that of statfs(2), `name` that of the
// mount, such as "fuse.sshfs"; empty if it is unknown.
std::string why_unreliable(unsigned long type, const std::string& name);

// The type of the mount with this number, from the text of /proc/self/mountinfo; empty if
// it is not there.
std::string mount_type_in(std::string_view mountinfo, std::string_view number);

// The same for an open file.
std::string mount_type_of(int fd);

// Who may have created the files in a directory.
struct Ownership {
  bool shared = false;  // set up for a group: setgid, and the group may write
  uid_t caller = 0;     // who runs this
  uid_t owner = 0;
  gid_t group = 0;
};

// Identifies a file even if it has been renamed.
struct FileIdentity {
  dev_t device = 0;
  ino_t number = 0;

  bool operator==(const FileIdentity&) const = default;
};

FileIdentity identity_of(const struct stat& status);

// Whether `name`, relative to a directory's descriptor, is that file itself and not a
// link to it. Tries twice: a single failure to examine it does not prove that it no
// longer exists.
bool leads_to(int directory, const char* name, const FileIdentity& identity);

// A directory that was opened and found safe, or a folder in one. Users who may write to
// it can forge the state of locks, and must gain nothing else: every file in it is opened
// relative to its descriptor, without following links, and refused unless it has the
// owner, type and mode that dlock itself would have given it.
class Directory {
 public:
  enum class Missing { create, accept };

  // Opens `path`, creating it with mode 0700 (`ours`: also its parents, and it must
  // belong to this user), or where a link of root or of this user leads. Nothing if it
  // does not exist and `missing` accepts that. Throws Failure: `rejected` if it belongs
  // to another user, is writable for everyone, shared and sticky, or not accessible to
  // us; `misconfigured` if it is not a directory, is another user's link, or is on a
  // network file system.
  static std::optional<Directory> open(const std::string& path, bool ours,
                                       Missing missing);

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }

  // A path to `name` in this directory even if the directory has been renamed; short, as
  // socket addresses have to be.
  std::string pinned(const std::string& name) const;

  // Whether `path` still leads to this directory.
  bool is_in_place() const;

  // 0600, or 0660 where the directory is shared within a group.
  mode_t file_mode() const { return ownership_.shared ? 0660 : 0600; }

  // The names in it except . and .. in any order; those that could be read.
  std::vector<std::string> names() const;

  // The folder `name` in it, which has the same ownership. Throws Failure.
  std::optional<Directory> folder(const std::string& name, Missing missing) const;

  // Opens the file `name`, creating it if `create`; returns an invalid Fd if it does not
  // exist and `create` is false. Throws Failure: `misconfigured` if it is not a regular
  // file with a single link, or not as dlock creates files (is_made_by_dlock). Stores the
  // result of fstat(2) in `status` unless that is null.
  Fd open_file(const std::string& name, int flags, bool create,
               struct stat* status = nullptr) const;

  // Creates the file `name`. Throws Failure if it exists.
  Fd create_file(const std::string& name, int flags) const;

  // Whether a file, folder or socket with this status is as dlock creates them here:
  // owned by the directory's owner or the caller and writable for no one else, or, in a
  // shared directory, of its group and writable for that.
  bool is_made_by_dlock(const struct stat& status) const;

 private:
  Directory(Fd fd, std::string path, FileIdentity identity, Ownership ownership)
      : fd_(std::move(fd)),
        path_(std::move(path)),
        identity_(identity),
        ownership_(ownership) {}

  // A shared folder is setgid as well: it inherits that, and to ask for it is refused
  // where a sandbox permits no setgid files (RestrictSUIDSGID= of systemd).
  mode_t folder_mode() const { return ownership_.shared ? 0770 : 0700; }
  void check_file(const struct stat& status, const std::string& name) const;

  Fd fd_;
  std::string path_;
  FileIdentity identity_;
  Ownership ownership_;
};

}  // namespace dlock
