#include "supervise/own_cgroup.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <new>

#include "util/light_child.hpp"
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

// Where `maker` may make one; empty if nowhere.
std::string path_for(pid_t maker) {
  // First, for the kernel makes the file anew for each process that reads it.
  const auto* root = std::find_if(std::begin(roots), std::end(roots), is_cgroup2);
  if (root == std::end(roots)) return "";
  // "0::/path" is the line of the second version.
  const auto text = text_of("/proc/self/cgroup");
  const auto line = text.rfind("0::", 0) == 0 ? 0 : text.find("\n0::");
  if (line == std::string::npos) return "";
  const auto start = text.find("::", line) + 2;
  const auto inner = text.substr(start, text.find('\n', start) - start);
  if (inner.size() < 2) return "";  // the root is nobody's
  const auto outer = *root + inner;
  return is_delegated(outer) ? outer + "/dlock-" + std::to_string(maker) : "";
}

}  // namespace

template <typename Check>
OwnCgroup OwnCgroup::at_path_of(pid_t maker, Check is_there) noexcept {
  OwnCgroup cgroup;
  try {
    const auto path = path_for(maker);
    if (path.empty() || !is_there(path.c_str())) return cgroup;
    cgroup.path_ = path;
    cgroup.processes_ =
        Fd(::open((path + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
    cgroup.kill_ = Fd(::open((path + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
  } catch (const std::bad_alloc&) {
    // Then there is none, or one that cannot be killed at once.
  }
  return cgroup;
}

OwnCgroup OwnCgroup::made() noexcept {
  return at_path_of(::getpid(),
                    [](const char* path) { return ::mkdir(path, 0755) == 0; });
}

OwnCgroup OwnCgroup::of(pid_t maker) noexcept {
  return at_path_of(maker, [](const char* path) {
    struct stat status {};
    return ::stat(path, &status) == 0;
  });
}

void OwnCgroup::enter() const {
  if (processes_) {
    raw_syscall(SYS_pwrite64, processes_.get(), reinterpret_cast<std::intptr_t>("0"), 1,
                0);
  }
}

void OwnCgroup::kill_all() const {
  if (kill_) [[maybe_unused]]
    const auto size = ::pwrite(kill_.get(), "1", 1, 0);
}

bool OwnCgroup::remove() const { return path_.empty() || ::rmdir(path_.c_str()) == 0; }

}  // namespace dlock
