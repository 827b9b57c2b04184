// Who besides root and the caller could have changed a file that the user names, or could
// redirect its path.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "util/failure.hpp"
#include "util/fd.hpp"

namespace dlock {

// What stat(2) says of a file, a directory or a link.
struct Owned {
  uid_t owner = 0;
  gid_t group = 0;
  mode_t mode = 0;
  nlink_t links = 1;
  bool is_private = false;   // its group is root and the caller alone, and it has no ACL
  bool is_unmapped = false;  // its owner has no number in this user namespace
};

// A name that the kernel looks up on the way to a file. A path that leads through links
// also has the steps of the links' targets.
struct PathStep {
  std::string directory_path;
  Owned directory;
  std::string path;
  std::optional<Owned> found;  // the link itself, not its target; nothing: there is none
};

// Why a path is not to be trusted.
struct Danger {
  enum class Why {
    owned_directory,     // another user owns the directory, so can replace its files
    writable_directory,  // everyone can replace its files
    group_directory,     // a group can
    others_entry,        // where everyone can create files, this one is another user's
    hard_link,           // another user may have made this second name of a file
    others_link,         // another user's link
    others_file,         // another user's file
    writable_file,       // everyone can write it
    group_file,          // a group can
  };
  Why why;
  std::string path;  // of the file, the link or the directory at fault
  Owned what;

  bool operator==(const Danger& other) const {
    return why == other.why && path == other.path;
  }
};

// What dlock relies on.
enum class Use {
  // It obeys the file: only root and the caller may be able to change it.
  settings,
  // It believes the file: those who hand it out may change it, but not everyone, and no
  // other user may redirect it to another file.
  authority,
  // It sends the file's content. As an authority, but in any directory: who replaces the
  // file only keeps the caller from logging in, and platforms hand out secrets in
  // directories that everyone can write.
  credential,
  // It overwrites the file, which no other user may have chosen. The same as the kernel's
  // protected_symlinks, protected_regular, protected_fifos and protected_hardlinks, for
  // links in any directory, and wherever those are off.
  output
};

// The first danger on the way; nothing if the path can be trusted. Without steps, it can.
std::optional<Danger> danger_on(const std::vector<PathStep>& way, Use use, uid_t caller);

// The danger for people, with what they can do: "refusing to use a file that everyone can
// write (chmod o-w)".
std::string text_of(const Danger& danger);

// A path that was followed to its last name, as open(2) would.
struct Way {
  int error = 0;  // errno if a part of it cannot be followed
  std::vector<PathStep> steps;
  Fd directory;                // of the last name
  std::string name;            // not a link, unless is_descriptor
  bool is_descriptor = false;  // leads to an open file: /dev/stdin, /proc/self/fd/3
};

// Follows the path. What is found is what open_at() opens, whoever changes links
// meanwhile.
Way way_to(const std::string& path);

// Opens the file as openat(2) does. Returns none with errno if that is not possible.
Fd open_at(const Way& way, int flags, mode_t mode = 0);

// Whether there is something at the end of the way.
bool has_end(const Way& way);

// Sets the facts of the last step to those of the opened file, in case that another one
// was there when it was looked up.
void see_end(Way& way, const Fd& opened);

// Opens a file for writing, or creates it as a shell does, if no other user can have
// chosen it (Use::output). Non-blocking: a FIFO without a reader is an error, and a full
// one does not block a write. Throws Failure: `what` ("cannot write the report to x") and
// why.
Fd open_to_write(const std::string& path, const std::string& what, int more_flags = 0);

// Whether every user may search all directories that lead there, by their real path.
bool is_reachable(const Way& way);

}  // namespace dlock
