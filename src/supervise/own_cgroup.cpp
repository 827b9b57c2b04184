#include "supervise/own_cgroup.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <new>

#include "util/process.hpp"

namespace dlock {
namespace {

// Where cgroup v2 is mounted: alone, or beside v1.
constexpr const char* roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

bool is_cgroup2(const char* path) {
  struct statfs status {};
  return ::statfs(path, &status) == 0 && status.f_type == CGROUP2_SUPER_MAGIC;
}

// systemd marks delegated cgroups so (its CGROUP_DELEGATION page).
bool is_delegated(const std::string& path) {
  for (const char* mark : {"user.delegate", "trusted.delegate"}) {
    char value = 0;
    if (::getxattr(path.c_str(), mark, &value, 1) == 1 && value == '1') return true;
  }
  return false;
}

// The cgroup below which others may be created; empty if there is none.
std::string outer_path() {
  // Checked first: the kernel generates the next file on each read, which costs time.
  const auto* root = std::ranges::find_if(roots, is_cgroup2);
  if (root == std::end(roots)) return "";
  // "0::/path" is the line for cgroup v2.
  const auto text = text_of("/proc/self/cgroup");
  const auto line = text.rfind("0::", 0) == 0 ? 0 : text.find("\n0::");
  if (line == std::string::npos) return "";
  const auto start = text.find("::", line) + 2;
  auto inner = text.substr(start, text.find('\n', start) - start);
  // It is outside of the mount.
  if (inner.rfind("/..", 0) == 0) return "";
  if (inner == "/") inner.clear();
  const auto outer = *root + inner;
  return ::geteuid() == 0 || is_delegated(outer) ? outer : "";
}

// The name of the cgroup that the process `maker` creates.
std::string name_of(pid_t maker) { return "dlock-" + std::to_string(maker); }

// Removes cgroups that killed processes have left below `outer`. One that still has
// processes stays, whatever PID namespace its maker is in: rmdir(2) refuses it.
void remove_leftovers(const std::string& outer) {
  // The links of a cgroup are its subdirectories and two more. Mostly it has none, and
  // then nothing has to be listed.
  struct stat status {};
  if (::stat(outer.c_str(), &status) != 0 || status.st_nlink <= 2) return;
  // The next run removes the rest.
  constexpr int most_looks = 100;
  int looks = 0;
  for (const auto& name : entries_of(outer)) {
    const auto maker = static_cast<pid_t>(std::atoi(name.c_str() + name.find('-') + 1));
    if (maker <= 0 || name != name_of(maker)) continue;
    if (::kill(maker, 0) != 0 && errno == ESRCH) {
      const auto path = outer + '/' + name;
      remove_leftovers(path);  // of runs in its command
      ::rmdir(path.c_str());
    }
    if (++looks == most_looks) return;
  }
}

bool make_directory(const std::string& path) {
  remove_leftovers(path.substr(0, path.rfind('/')));
  if (::mkdir(path.c_str(), 0755) == 0) return true;
  // Left by a killed process with the same pid; it is empty.
  return errno == EEXIST && ::rmdir(path.c_str()) == 0 &&
         ::mkdir(path.c_str(), 0755) == 0;
}

}  // namespace

template <typename Check>
OwnCgroup OwnCgroup::at_path_of(pid_t maker, Check is_there) noexcept {
  OwnCgroup cgroup;
  try {
    const auto outer = outer_path();
    if (outer.empty()) return cgroup;
    cgroup.outer_processes_ = outer + "/cgroup.procs";
    const auto path = outer + '/' + name_of(maker);
    if (!is_there(path)) return cgroup;
    cgroup.path_ = path;
    cgroup.directory_ = Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    cgroup.kill_ =
        Fd(::openat(cgroup.directory_.get(), "cgroup.kill", O_WRONLY | O_CLOEXEC));
  } catch (const std::bad_alloc&) {
    // Out of memory: there is no cgroup, or cgroup.kill is not open.
  }
  return cgroup;
}

OwnCgroup OwnCgroup::create() noexcept {
  auto cgroup = at_path_of(::getpid(), make_directory);
  if (!cgroup.exists() || cgroup.kill_) return cgroup;
  cgroup.remove();  // it is useless before Linux 5.14
  return OwnCgroup();
}

OwnCgroup OwnCgroup::of(pid_t maker) noexcept {
  return at_path_of(maker, [](const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0;
  });
}

void OwnCgroup::kill_all() const {
  if (kill_) [[maybe_unused]]
    const auto size = ::pwrite(kill_.get(), "1", 1, 0);
}

bool OwnCgroup::remove() const {
  if (path_.empty() || ::rmdir(path_.c_str()) == 0 || errno == ENOENT) return true;
  // The next pass may find processes that were started during the last.
  constexpr int most_looks = 10;
  for (int looks = 0; looks < most_looks; ++looks) {
    empty_out();
    if (::rmdir(path_.c_str()) == 0) return true;
  }
  return false;
}

// Each pid needs a separate write.
void OwnCgroup::empty_out() const {
  const Fd inside(::openat(directory_.get(), "cgroup.procs", O_RDONLY | O_CLOEXEC));
  const Fd outside(::open(outer_processes_.c_str(), O_WRONLY | O_CLOEXEC));
  char pids[4096];
  const auto size = ::read(inside.get(), pids, sizeof pids);
  for (ssize_t at = 0; at < size;) {
    const auto* end = std::find(pids + at, pids + size, '\n');
    if (end == pids + size) return;  // it may be truncated
    const auto length = end - (pids + at);
    [[maybe_unused]] const auto written =
        ::write(outside.get(), pids + at, static_cast<std::size_t>(length));
    at += length + 1;
  }
}

}  // namespace dlock
