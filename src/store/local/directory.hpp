// The directory of a local store: where it is, and whether it can be trusted.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "util/fd.hpp"

namespace dlock::local {

// What the environment says about where things go; a value, so that tests can say it.
struct Surroundings {
  uid_t uid = 0;
  std::string home;            // $HOME, or the account's; empty if there is none
  std::string xdg_state_home;  // $XDG_STATE_HOME
};

Surroundings surroundings();

// Root: /var/lib/dlock. Others: $XDG_STATE_HOME/dlock if that is an absolute path, else
// ~/.local/state/dlock. Never /tmp, where anybody could have been first. Nothing if
// there is no home directory.
std::optional<std::string> default_directory(const Surroundings& surroundings);

// Whether locks on such a file system (statfs(2)) reach other machines, do nothing, or
// depend on a server: the kernel's word is then no proof of life.
bool is_network_file_system(unsigned long type);

// Who may have made what is in a directory.
struct Ownership {
  bool shared = false;  // set up for a group: setgid, and the group may write
  uid_t caller = 0;     // who runs this
  uid_t owner = 0;
  gid_t group = 0;
};

// Which file something is, whatever its name is by now.
struct FileIdentity {
  dev_t device = 0;
  ino_t number = 0;

  bool operator==(const FileIdentity&) const = default;
};

FileIdentity identity_of(const struct stat& status);

// Whether `name`, relative to the descriptor of a directory, is that very file, and no
// link to it. That it could not be examined once is no proof that it is not there.
bool leads_to(int directory, const char* name, const FileIdentity& identity);

// A directory that was opened and found to be safe, or a folder in one. Whoever may write
// to it can lie about the locks, and must gain nothing else: everything in it is opened
// relative to its descriptor, follows no links, and is refused unless it is what dlock
// itself would have made there.
class Directory {
 public:
  enum class Missing { create, accept };

  // Opens `path`, creating it with mode 0700 (`ours`: and its parents; it must then
  // belong to this user). Nothing if it does not exist and `missing` accepts that.
  // Throws Failure: `rejected` if it is somebody else's or open to all, or not to us;
  // `misconfigured` if it is no directory, a link, or on a network file system.
  static std::optional<Directory> open(const std::string& path, bool ours,
                                       Missing missing);

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }

  // A path to `name` in this very directory, whatever its own path leads to by now; and
  // a short one, as the addresses of sockets have to be.
  std::string pinned(const std::string& name) const;

  // Whether `path` still leads to this directory.
  bool is_in_place() const;

  // 0600, or 0660 where the directory is shared within a group.
  mode_t file_mode() const { return ownership_.shared ? 0660 : 0600; }

  // The names in it, without . and .. in any order; as far as it can be read.
  std::vector<std::string> names() const;

  // The folder `name` in it, which has the same ownership. Throws Failure.
  std::optional<Directory> folder(const std::string& name, Missing missing) const;

  // Opens the file `name`, creating it if `create`; an invalid Fd if it does not exist
  // and is not to be created. Throws Failure: `misconfigured` for what is no plain file
  // of one name, or was not made by somebody who may (see is_made_by_dlock). What
  // fstat(2) says of it goes to `status`, if that is wanted.
  Fd open_file(const std::string& name, int flags, bool create,
               struct stat* status = nullptr) const;

  // Makes the file `name`. Throws Failure if there is one.
  Fd create_file(const std::string& name, int flags) const;

  // Whether a file, folder or socket of this status is as dlock makes them here: its
  // owner's or the caller's own and writable for nobody else, or, where the directory is
  // shared, its group's and writable for that.
  bool is_made_by_dlock(const struct stat& status) const;

 private:
  Directory(Fd fd, std::string path, FileIdentity identity, Ownership ownership)
      : fd_(std::move(fd)),
        path_(std::move(path)),
        identity_(identity),
        ownership_(ownership) {}

  mode_t folder_mode() const { return ownership_.shared ? 02770 : 0700; }
  void check_file(const struct stat& status, const std::string& name) const;

  Fd fd_;
  std::string path_;
  FileIdentity identity_;
  Ownership ownership_;
};

}  // namespace dlock::local
