#include <fcntl.h>
#include <poll.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef SYS_openat2
#include <linux/openat2.h>
#endif

#include <cerrno>
#include <chrono>
#include <map>

#include "util/small_file.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Long enough for a password manager, and for a person to notice.
constexpr milliseconds patience_for_writer{5000};

Failure unusable(const FileKind& kind, const std::string& why) {
  return Failure::misconfigured(kind.name + ": " + why);
}

// Waits until there is something to read, or the end.
bool is_ready(int fd, steady_clock::time_point until) {
  for (;;) {
    const auto left =
        std::chrono::ceil<milliseconds>(until - steady_clock::now()).count();
    pollfd wanted{fd, POLLIN, 0};
    const int ready = ::poll(&wanted, 1, left > 0 ? static_cast<int>(left) : 0);
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

std::string content_of(int fd, bool is_pipe, const FileKind& kind) {
  const auto until = steady_clock::now() + patience_for_writer;
  std::string text;
  char block[4096];
  for (;;) {
    if (is_pipe && !is_ready(fd, until)) {
      throw unusable(kind, "the pipe was not written to its end within 5s");
    }
    const auto got = ::read(fd, block, sizeof block);
    if (got < 0 && (errno == EINTR || (is_pipe && errno == EAGAIN))) continue;
    if (got < 0) throw kind.failure(errno, kind.name);
    if (got == 0) return text;
    text.append(block, static_cast<std::size_t>(got));
    if (text.size() > kind.most) {
      throw unusable(kind, "larger than " + shown_size(kind.most));
    }
  }
}

SecretFacts facts_of(int fd, const struct stat& status, const std::string& path) {
  SecretFacts facts{status.st_mode, status.st_uid, true, false};
  if ((status.st_mode & S_IROTH) == 0) return facts;  // the usual case
  struct statvfs file_system {};
  facts.is_read_only =
      ::fstatvfs(fd, &file_system) == 0 && (file_system.f_flag & ST_RDONLY) != 0;
  facts.is_reachable = is_reachable(way_to(path));
  return facts;
}

void require_confidential(int fd, const struct stat& status, const std::string& path,
                          const FileKind& kind) {
  if (!kind.is_secret) return;
  if (exposure_of(facts_of(fd, status, path), ::geteuid()) != Exposure::correctable) {
    return;
  }
  throw Failure::rejected(kind.name +
                          ": every user of this machine can read it (chmod o-r, or "
                          "mount it with mode 0440)");
}

// O_NONBLOCK: do not wait for the writer of a pipe. The type is checked afterwards.
constexpr int safely = O_RDONLY | O_NONBLOCK | O_NOCTTY;

// Opens a file whose path has no links. Returns none for any other path, and before Linux
// 5.6.
Fd open_without_links(const std::string& path) {
#ifdef SYS_openat2
  open_how how{};
  how.flags = safely | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS;
  return Fd(
      static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how)));
#else
  return {};
#endif
}

void refuse_danger(const std::vector<PathStep>& way, const FileKind& kind) {
  if (const auto danger = danger_on(way, kind.use, ::geteuid())) {
    throw Failure::rejected(kind.name + ": " + text_of(*danger));
  }
}

}  // namespace

SmallFile small_file(const std::string& path, const FileKind& kind) {
  static std::map<std::string, std::string> pipes;
  if (const auto known = pipes.find(path); known != pipes.end()) {
    return {known->second, true};
  }
  Fd file;
  // Each login reads such a file, and of its path only links matter.
  if (kind.use == Use::credential) file = open_without_links(path);
  if (!file) {
    const auto way = way_to(path);
    refuse_danger(way.steps, kind);
    file = open_at(way, safely);
  }
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) throw kind.failure(errno, kind.name);
  if (kind.use == Use::credential) {
    const Owned facts{status.st_uid, status.st_gid, status.st_mode, status.st_nlink};
    refuse_danger({{"", {}, path, facts}}, kind);
  }
  const bool is_pipe = S_ISFIFO(status.st_mode);
  if (S_ISDIR(status.st_mode)) throw unusable(kind, "it is a directory, not a file");
  if (!S_ISREG(status.st_mode) && !(is_pipe && kind.may_be_pipe)) {
    throw unusable(kind, "not a regular file");
  }
  require_confidential(file.get(), status, path, kind);
  SmallFile found{content_of(file.get(), is_pipe, kind), is_pipe};
  if (is_pipe) pipes[path] = found.text;
  return found;
}

Exposure exposure_of(const SecretFacts& facts, uid_t caller) {
  if ((facts.mode & S_IROTH) == 0 || !facts.is_reachable) return Exposure::none;
  const bool can_change = !facts.is_read_only && (caller == 0 || caller == facts.owner);
  return can_change ? Exposure::correctable : Exposure::given;
}

bool is_given_to_everyone(const std::string& path) {
  struct stat status {};
  const bool may_be = ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
                      (status.st_mode & S_IROTH) != 0;
  if (!may_be) return false;
  const Fd file = open_at(way_to(path), safely);
  return file && ::fstat(file.get(), &status) == 0 &&
         exposure_of(facts_of(file.get(), status, path), ::geteuid()) == Exposure::given;
}

}  // namespace dlock
