// The directory of a local store: where it is, and whether it can be trusted.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

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

// A directory that was opened and found to be safe.
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
  mode_t file_mode() const { return file_mode_; }

  // Opens the file `name`, creating it if `create`; an invalid Fd if it does not exist
  // and is not to be created. Refuses what is no plain file of one name.
  Fd open_file(const std::string& name, int flags, bool create) const;

 private:
  Directory(Fd fd, std::string path, mode_t file_mode)
      : fd_(std::move(fd)), path_(std::move(path)), file_mode_(file_mode) {}

  Fd fd_;
  std::string path_;
  mode_t file_mode_;
};

}  // namespace dlock::local
