#include "store/local/record_file.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "util/text.hpp"

namespace dlock::local {
namespace {

// How often a record is read again if its checksum does not match: two changes during one
// read are rare, and do not happen ten times in a row.
constexpr int most_reads = 10;

// The file's contents, up to `size`; nothing if it cannot be read.
std::optional<std::string> contents_of(int fd, std::size_t size) {
  std::string text(size, '\0');
  std::size_t got = 0;
  while (got < size) {
    const auto more = ::pread(fd, text.data() + got, size - got, static_cast<off_t>(got));
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return std::nullopt;
    if (more == 0) break;
    got += static_cast<std::size_t>(more);
  }
  text.resize(got);
  return text;
}

bool write_at(int fd, std::string_view bytes, std::size_t at) {
  while (!bytes.empty()) {
    const auto size = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(size));
    at += static_cast<std::size_t>(size);
  }
  return true;
}

}  // namespace

Damaged damaged(const std::string& path, const std::string& what) {
  return Damaged(Failure::Kind::misconfigured,
                 printable(path) + " is " + what +
                     "; move it away once no command runs under its lock");
}

RecordFile::RecordFile(const Directory& folder, std::string name, Access access)
    : folder_(folder), name_(std::move(name)) {
  struct stat status {};
  file_ = folder_.open_file(name_, access == Access::read ? O_RDONLY : O_RDWR, false,
                            &status);
  if (!file_) return;
  changed_ = WallTime(std::chrono::seconds(status.st_mtim.tv_sec));
  read(static_cast<std::uint64_t>(status.st_size), access);
}

// The size of a file never changes: a larger file is a new one.
void RecordFile::read(std::uint64_t size, Access access) {
  if (!is_record_file_size(size)) {
    throw damaged(path(), size < smallest_record_file ? "truncated" : "damaged");
  }
  for (int reads = 1;; ++reads) {
    const auto bytes = contents_of(file_.get(), size);
    if (!bytes) throw_failure_of(errno, "cannot read " + printable(path()));
    if (bytes->size() < size) throw damaged(path(), "truncated");
    if (const auto record = record_in(*bytes)) {
      size_ = size;
      payload_ = record->payload;
      sequence_ = record->sequence;
      written_ = record->written;
      half_ = record->half;
      return;
    }
    // Its mutex is held, so no other process writes to it.
    if (access == Access::write || reads == most_reads) {
      if (is_of_another_format(*bytes)) {
        const auto what =
            damaged(path(), "damaged (it has the format of another version of dlock)");
        throw Failure(what.kind(), what.what());
      }
      throw damaged(path(), "damaged (its checksum does not match)");
    }
    ::sched_yield();
  }
}

void RecordFile::write(std::string payload, Moment now, std::size_t spare) {
  const auto needed = record_file_size(payload.size() + spare);
  if (!needed) {
    throw Failure(Failure::Kind::unreachable,
                  printable(path()) + " would become too large: too many waiters");
  }
  if (file_ && *needed <= size_) {
    if (!write_in_place(payload, now)) {
      throw failure_of(errno, "cannot write to " + printable(path()));
    }
  } else {
    replace(payload, *needed, now);
  }
  payload_ = std::move(payload);
}

// The blocks were allocated when the file was created, so a full disk does not matter.
bool RecordFile::write_in_place(std::string_view payload, Moment now) {
  const unsigned other = 1 - half_;
  const Record record{payload, sequence_ + 1, now, other};
  if (!write_at(file_.get(), payload, half_begin(size_, other)) ||
      !write_at(file_.get(), record_head(record), 0)) {
    return false;
  }
  half_ = other;
  sequence_ = record.sequence;
  written_ = now;
  return true;
}

void RecordFile::replace(std::string_view payload, std::size_t size, Moment now) {
  const auto draft = name_ + ".new";
  const Record record{payload, sequence_ + 1, now, 0};
  ::unlinkat(folder_.fd(), draft.c_str(), 0);  // left by a process that was killed here
  Fd file = folder_.create_file(draft, O_RDWR);
  if (!write_all(file.get(), record_file(size, record)) ||
      ::renameat(folder_.fd(), draft.c_str(), folder_.fd(), name_.c_str()) != 0) {
    const int error = errno;
    ::unlinkat(folder_.fd(), draft.c_str(), 0);
    throw failure_of(error, "cannot write " + printable(path()));
  }
  file_ = std::move(file);
  size_ = size;
  half_ = 0;
  sequence_ = record.sequence;
  written_ = now;
}

bool RecordFile::has_changed() const {
  if (!file_) return false;
  struct stat status {};
  const auto head = contents_of(file_.get(), record_head_size);
  return ::fstat(file_.get(), &status) != 0 || status.st_nlink == 0 || !head ||
         sequence_in(*head) != sequence_;
}

void RecordFile::touch() const { ::futimens(file_.get(), nullptr); }

void RecordFile::remove() {
  if (::unlinkat(folder_.fd(), name_.c_str(), 0) != 0 && errno != ENOENT) {
    throw failure_of(errno, "cannot remove " + printable(path()));
  }
  file_.reset();
  payload_.clear();
  sequence_ = 0;
}

}  // namespace dlock::local
