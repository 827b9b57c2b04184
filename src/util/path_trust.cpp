#include "util/path_trust.hpp"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock {
namespace {

using Why = Danger::Why;

bool is_ours(const Owned& what, uid_t caller) {
  return what.owner == 0 || what.owner == caller;
}

bool everyone_writes(const Owned& what) { return (what.mode & S_IWOTH) != 0; }

bool group_writes(const Owned& what) {
  return (what.mode & S_IWGRP) != 0 && !what.is_private;
}

bool is_sticky(const Owned& what) { return (what.mode & S_ISVTX) != 0; }

// A link that another user may have made. An unknown owner is root in most cases: a user
// namespace of one user hides all others, also that of /dev/stdin.
bool is_others_link(const PathStep& step, uid_t caller) {
  if (!step.found || !S_ISLNK(step.found->mode) || is_ours(*step.found, caller)) {
    return false;
  }
  return !step.found->is_unmapped || everyone_writes(step.directory);
}

// Whether others can create files there, but cannot replace those of root and the caller.
bool is_kept_by_sticky_bit(const PathStep& step, uid_t caller) {
  return is_sticky(step.directory) && (!step.found || is_ours(*step.found, caller));
}

bool is_second_name(const PathStep& step) {
  return step.found && S_ISREG(step.found->mode) && step.found->links > 1;
}

std::optional<Danger> directory_danger(const PathStep& step, uid_t caller, bool group) {
  const auto& directory = step.directory;
  const bool writable = everyone_writes(directory);
  if (!writable && !(group && group_writes(directory))) return std::nullopt;
  if (is_kept_by_sticky_bit(step, caller)) {
    if (is_second_name(step)) return Danger{Why::hard_link, step.path, *step.found};
    return std::nullopt;
  }
  if (is_sticky(directory)) return Danger{Why::others_entry, step.path, *step.found};
  return Danger{writable ? Why::writable_directory : Why::group_directory,
                step.directory_path, directory};
}

std::optional<Danger> danger_to_settings(const PathStep& step, uid_t caller) {
  const auto& directory = step.directory;
  if (!is_ours(directory, caller) && !directory.is_unmapped) {
    return Danger{Why::owned_directory, step.directory_path, directory};
  }
  return directory_danger(step, caller, true);
}

std::optional<Danger> link_danger(const PathStep& step, uid_t caller) {
  if (!is_others_link(step, caller)) return std::nullopt;
  return Danger{Why::others_link, step.path, *step.found};
}

std::optional<Danger> danger_to_authority(const PathStep& step, uid_t caller) {
  const auto danger = link_danger(step, caller);
  return danger ? danger : directory_danger(step, caller, false);
}

std::optional<Danger> danger_of_output(const PathStep& step, uid_t caller) {
  if (const auto danger = link_danger(step, caller)) return danger;
  const auto& directory = step.directory;
  const bool by_others =
      everyone_writes(directory) || (group_writes(directory) && is_sticky(directory));
  const bool is_file =
      step.found && !S_ISLNK(step.found->mode) && !S_ISDIR(step.found->mode);
  if (is_file && by_others && step.found->owner != caller &&
      step.found->owner != directory.owner) {
    return Danger{Why::others_entry, step.path, *step.found};
  }
  const bool may_be_linked = !is_ours(directory, caller) || everyone_writes(directory) ||
                             group_writes(directory);
  if (may_be_linked && is_second_name(step)) {
    return Danger{Why::hard_link, step.path, *step.found};
  }
  return std::nullopt;
}

std::optional<Danger> danger_of_file(const PathStep& last, Use use, uid_t caller) {
  if (use == Use::output || !last.found) return std::nullopt;
  const auto& file = *last.found;
  if (!S_ISREG(file.mode) && !S_ISFIFO(file.mode)) return std::nullopt;  // not readable
  if (everyone_writes(file)) return Danger{Why::writable_file, last.path, file};
  if (use != Use::settings) return std::nullopt;
  if (!is_ours(file, caller)) return Danger{Why::others_file, last.path, file};
  if (group_writes(file)) return Danger{Why::group_file, last.path, file};
  return std::nullopt;
}

// The names of a path in reverse order. A slash at its end stands for a directory.
std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  for (const auto name : split(path, '/')) {
    if (!name.empty()) names.emplace_back(name);
  }
  if (names.empty() || path.ends_with('/')) names.emplace_back(".");
  std::ranges::reverse(names);
  return names;
}

Owned owned(const struct stat& status, const std::string& path) {
  Owned what{status.st_uid, status.st_gid, status.st_mode, status.st_nlink};
  const auto caller = ::geteuid();
  // Where everyone can write, it does not matter.
  if (!S_ISLNK(what.mode) && (what.mode & S_IWGRP) != 0 && !everyone_writes(what)) {
    // With an ACL, these bits are also those of other users.
    what.is_private =
        is_private_group(what.group, caller) &&
        ::lgetxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) < 0;
  }
  if (!is_ours(what, caller)) what.is_unmapped = is_unmapped_user(what.owner);
  return what;
}

std::string beneath(const std::string& directory, const std::string& name) {
  if (directory == ".") return name;
  return directory == "/" ? directory + name : directory + "/" + name;
}

// Follows a path name by name. Each directory is open, so that it cannot be exchanged.
class Walk {
 public:
  explicit Walk(const std::string& path) : names_(names_in(path)) {
    start_at(path.starts_with('/') ? "/" : ".");
  }

  Way to_its_end() {
    while (way_.error == 0 && !is_over_) step();
    return std::move(way_);
  }

 private:
  static constexpr int most_links = 40;  // as the kernel

  void fail(int error) { way_.error = error; }

  void start_at(const char* path) {
    enter(Fd(::open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)), path);
  }

  void enter(Fd directory, const std::string& path) {
    struct stat status {};
    if (!directory || ::fstat(directory.get(), &status) != 0) return fail(errno);
    enter(std::move(directory), path, status, owned(status, path));
  }

  void enter(Fd directory, const std::string& path, const struct stat& status,
             const Owned& what) {
    if (!S_ISDIR(status.st_mode)) return fail(ENOTDIR);
    directory_ = what;
    is_root_of_proc_ = status.st_ino == 1;  // if it is in /proc at all
    directory_path_ = path;
    way_.directory = std::move(directory);
  }

  // With O_DIRECTORY, an automounter mounts the directory. A link has to be opened
  // without.
  Fd opened(const std::string& name, int flags) const {
    return Fd(::openat(way_.directory.get(), name.c_str(),
                       flags | O_PATH | O_NOFOLLOW | O_CLOEXEC));
  }

  void stop_at(const std::string& name) {
    way_.name = name;
    is_over_ = true;
  }

  void step() {
    const auto name = names_.back();
    names_.pop_back();
    const bool is_last = names_.empty();
    if (name == ".") {
      if (is_last) stop_at(name);
      return;
    }
    Fd entry = opened(name, is_last ? 0 : O_DIRECTORY);
    if (!entry && !is_last && errno == ENOTDIR) entry = opened(name, 0);
    PathStep step{directory_path_, directory_, beneath(directory_path_, name), {}};
    struct stat status {};
    if (!entry && errno == ENOENT && is_last) {
      way_.steps.push_back(step);
      return stop_at(name);
    }
    if (!entry || ::fstat(entry.get(), &status) != 0) return fail(errno);
    step.found = owned(status, step.path);
    way_.steps.push_back(step);
    if (S_ISLNK(status.st_mode)) return follow(std::move(entry), name, step.path);
    if (is_last) return stop_at(name);
    enter(std::move(entry), step.path, status, *step.found);
  }

  void follow(Fd link, const std::string& name, const std::string& path) {
    struct statfs file_system {};
    if (::fstatfs(link.get(), &file_system) == 0 &&
        file_system.f_type == PROC_SUPER_MAGIC && !is_root_of_proc_) {
      // It leads to an open file; its text may be no path, or that of another file.
      way_.is_descriptor = names_.empty();
      if (way_.is_descriptor) return stop_at(name);
      return enter(Fd(::openat(way_.directory.get(), name.c_str(), O_PATH | O_CLOEXEC)),
                   path);
    }
    char target[PATH_MAX];
    const auto size = ::readlinkat(link.get(), "", target, sizeof target);
    if (size <= 0) return fail(size < 0 ? errno : ENOENT);
    if (++links_ > most_links) return fail(ELOOP);
    const std::string text(target, static_cast<std::size_t>(size));
    const auto names = names_in(text);
    names_.insert(names_.end(), names.begin(), names.end());
    if (text.starts_with('/')) start_at("/");
  }

  Way way_;
  std::vector<std::string> names_;  // still to be followed, in reverse order
  std::string directory_path_;
  Owned directory_;
  bool is_root_of_proc_ = false;
  bool is_over_ = false;
  int links_ = 0;
};

std::optional<Danger> danger_at(const PathStep& step, Use use, uid_t caller) {
  switch (use) {
    case Use::settings: return danger_to_settings(step, caller);
    case Use::authority: return danger_to_authority(step, caller);
    case Use::credential: return link_danger(step, caller);
    case Use::output: break;
  }
  return danger_of_output(step, caller);
}

}  // namespace

std::optional<Danger> danger_on(const std::vector<PathStep>& way, Use use, uid_t caller) {
  for (const auto& step : way) {
    if (auto danger = danger_at(step, use, caller)) return danger;
  }
  return way.empty() ? std::nullopt : danger_of_file(way.back(), use, caller);
}

std::string text_of(const Danger& danger) {
  // In the order of Danger::Why; \1 stands for the owner, \2 for the group and \3 for the
  // path at fault.
  constexpr const char* texts[] = {
      "use a file in the directory \3, which \1 owns",
      "use a file in the directory \3, which everyone can write (chmod o-w \3)",
      "use a file in the directory \3, which the group \2 can write (chmod g-w \3)",
      "use \3, which \1 has made in a directory where others can create files",
      "use \3, which others may have made: the file has several names (hard links)",
      "follow the link \3, which belongs to \1, not to you or root",
      "use a file owned by \1, not by you or root",
      "use a file that everyone can write (chmod o-w)",
      "use a file that the group \2 can write (chmod g-w)",
  };
  std::string text = texts[static_cast<std::size_t>(danger.why)];
  text = replaced(std::move(text), "\1", printable(user_name(danger.what.owner)));
  text = replaced(std::move(text), "\2", printable(group_name(danger.what.group)));
  return "refusing to " + replaced(std::move(text), "\3", printable(danger.path));
}

Way way_to(const std::string& path) {
  if (path.empty()) {
    Way nowhere;
    nowhere.error = ENOENT;
    return nowhere;
  }
  return Walk(path).to_its_end();
}

Fd open_at(const Way& way, int flags, mode_t mode) {
  if (way.error != 0) {
    errno = way.error;
    return {};
  }
  if (way.is_descriptor) {
    flags &= ~O_CREAT;
  } else {
    flags |= O_NOFOLLOW;
  }
  return Fd(::openat(way.directory.get(), way.name.c_str(), flags | O_CLOEXEC, mode));
}

bool has_end(const Way& way) {
  return way.is_descriptor || way.steps.empty() || way.steps.back().found;
}

void see_end(Way& way, const Fd& opened) {
  struct stat status {};
  if (way.is_descriptor || way.steps.empty()) return;
  auto& last = way.steps.back();
  if (::fstat(opened.get(), &status) == 0) last.found = owned(status, last.path);
}

Fd open_to_write(const std::string& path, const std::string& what, int more_flags) {
  const int flags = O_WRONLY | O_NOCTTY | O_NONBLOCK | more_flags;
  constexpr int most_tries = 3;
  const auto require_own = [&](const Way& way) {
    const auto danger = danger_on(way.steps, Use::output, ::geteuid());
    if (danger) throw Failure::misconfigured(what + ": " + text_of(*danger));
  };
  Fd file;
  for (int tries = 0; !file && tries < most_tries; ++tries) {
    auto way = way_to(path);
    require_own(way);
    const bool is_there = has_end(way);
    file = open_at(way, is_there ? flags : flags | O_CREAT | O_EXCL, 0666);
    // Unless another process has created or removed it since it was looked up.
    if (!file && errno != (is_there ? ENOENT : EEXIST)) break;
    if (!file || !is_there) continue;
    see_end(way, file);  // which may have been replaced since
    require_own(way);
  }
  if (!file) throw failure_of_named(errno, what);
  return file;
}

bool is_reachable(const Way& way) {
  if (way.error != 0 || way.is_descriptor) return true;
  int directory = way.directory.get();
  Fd parent;
  struct stat below {};
  for (;;) {
    struct stat status {};
    if (::fstat(directory, &status) != 0) return true;
    if ((status.st_mode & S_IXOTH) == 0) return false;
    const bool is_root = below.st_ino == status.st_ino && below.st_dev == status.st_dev;
    if (is_root) return true;
    below = status;
    parent = Fd(::openat(directory, "..", O_PATH | O_CLOEXEC));
    if (!parent) return true;
    directory = parent.get();
  }
}

}  // namespace dlock
