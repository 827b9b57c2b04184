#include "supervise/own_cgroup.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>

#include "util/process.hpp"

namespace dlock {
namespace {

// Where the second version is: alone, or beside the first.
constexpr const char* roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

bool is_cgroup2(const char* path) {
  struct statfs status {};
  return ::statfs(path, &status) == 0 && status.f_type == CGROUP2_SUPER_MAGIC;
}

// As systemd marks what it hands over (its CGROUP_DELEGATION page).
bool is_delegated(const std::string& path) {
  for (const char* mark : {"user.delegate", "trusted.delegate"}) {
    char value = 0;
    if (::getxattr(path.c_str(), mark, &value, 1) == 1 && value == '1') return true;
  }
  return false;
}

// The one below which some may be made; empty if there is none.
std::string outer_path() {
  // First, for the kernel makes the file anew for each process that reads it.
  const auto* root = std::find_if(std::begin(roots), std::end(roots), is_cgroup2);
  if (root == std::end(roots)) return "";
  // "0::/path" is the line of the second version.
  const auto text = text_of("/proc/self/cgroup");
  const auto line = text.rfind("0::", 0) == 0 ? 0 : text.find("\n0::");
  if (line == std::string::npos) return "";
  const auto start = text.find("::", line) + 2;
  auto inner = text.substr(start, text.find('\n', start) - start);
  // It lies outside of what is mounted here.
  if (inner.rfind("/..", 0) == 0) return "";
  if (inner == "/") inner.clear();
  const auto outer = *root + inner;
  return ::geteuid() == 0 || is_delegated(outer) ? outer : "";
}

bool make_directory(const char* path) {
  if (::mkdir(path, 0755) == 0) return true;
  // One of that number was killed, and nobody is in there.
  return errno == EEXIST && ::rmdir(path) == 0 && ::mkdir(path, 0755) == 0;
}

}  // namespace

template <typename Check>
OwnCgroup OwnCgroup::at_path_of(pid_t maker, Check is_there) noexcept {
  OwnCgroup cgroup;
  try {
    const auto outer = outer_path();
    if (outer.empty()) return cgroup;
    cgroup.outer_processes_ = outer + "/cgroup.procs";
    const auto path = outer + "/dlock-" + std::to_string(maker);
    if (!is_there(path.c_str())) return cgroup;
    cgroup.path_ = path;
    cgroup.directory_ = Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    cgroup.kill_ =
        Fd(::openat(cgroup.directory_.get(), "cgroup.kill", O_WRONLY | O_CLOEXEC));
  } catch (const std::bad_alloc&) {
    // Then there is none, or one that cannot be killed at once.
  }
  return cgroup;
}

OwnCgroup OwnCgroup::made() noexcept {
  auto cgroup = at_path_of(::getpid(), make_directory);
  if (!cgroup.exists() || cgroup.kill_) return cgroup;
  cgroup.remove();  // before Linux 5.14 it would be of no use
  return OwnCgroup();
}

OwnCgroup OwnCgroup::of(pid_t maker) noexcept {
  return at_path_of(maker, [](const char* path) {
    struct stat status {};
    return ::stat(path, &status) == 0;
  });
}

void OwnCgroup::kill_all() const {
  if (kill_) [[maybe_unused]]
    const auto size = ::pwrite(kill_.get(), "1", 1, 0);
}

bool OwnCgroup::remove() const {
  if (path_.empty() || ::rmdir(path_.c_str()) == 0 || errno == ENOENT) return true;
  // The next look may find some that were started during the last.
  constexpr int most_looks = 10;
  for (int looks = 0; looks < most_looks; ++looks) {
    empty_out();
    if (::rmdir(path_.c_str()) == 0) return true;
  }
  return false;
}

// Each number needs a call of its own.
void OwnCgroup::empty_out() const {
  const Fd inside(::openat(directory_.get(), "cgroup.procs", O_RDONLY | O_CLOEXEC));
  const Fd outside(::open(outer_processes_.c_str(), O_WRONLY | O_CLOEXEC));
  char pids[4096];
  const auto size = ::read(inside.get(), pids, sizeof pids);
  for (ssize_t at = 0; at < size;) {
    const auto* end = std::find(pids + at, pids + size, '\n');
    if (end == pids + size) return;  // it may be cut off
    const auto length = end - (pids + at);
    [[maybe_unused]] const auto written =
        ::write(outside.get(), pids + at, static_cast<std::size_t>(length));
    at += length + 1;
  }
}

}  // namespace dlock
