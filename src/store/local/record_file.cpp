#include "store/local/record_file.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "util/bits.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

// `name`, which no file has then.
std::string without_old(const Directory& folder, std::string name) {
  ::unlinkat(folder.fd(), name.c_str(), 0);
  return name;
}

}  // namespace

std::string contents_of(int fd, std::size_t most, std::string_view what, off_t at) {
  std::string text(most, '\0');
  std::size_t size = 0;
  while (size < most) {
    const auto got =
        ::pread(fd, text.data() + size, most - size, at + static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_failure_of(errno, "cannot read " + printable(what));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

Draft::Draft(const Directory& folder, const std::string& name, int flags,
             const std::string& what)
    : Draft(folder, name, without_old(folder, name + ".new"), flags, what) {}

Draft::Draft(const Directory& folder, std::string name, std::string draft_name, int flags,
             std::string what)
    : folder_(folder.fd()), name_(std::move(name)), what_(std::move(what)) {
  file_ = folder.create_file(draft_name, flags);
  draft_name_ = std::move(draft_name);
}

Draft::Draft(Draft&& other) noexcept
    : folder_(other.folder_),
      name_(std::move(other.name_)),
      draft_name_(std::exchange(other.draft_name_, {})),
      what_(std::move(other.what_)),
      file_(std::move(other.file_)) {}

Draft::~Draft() {
  if (!draft_name_.empty()) ::unlinkat(folder_, draft_name_.c_str(), 0);
}

void Draft::write(std::string_view bytes) {
  if (!write_all(file_.get(), bytes)) throw failure_of(errno, what_);
}

void Draft::put_in_place(bool syncs) {
  if ((syncs && ::fsync(file_.get()) != 0) ||
      ::renameat(folder_, draft_name_.c_str(), folder_, name_.c_str()) != 0) {
    throw failure_of(errno, what_);
  }
  draft_name_.clear();
}

namespace {

constexpr std::size_t digits = 32;

std::string_view ending(StateKind kept) {
  return kept == StateKind::lock ? ".lock" : ".limit";
}

constexpr std::uint64_t format = 0x35306b636f6c64u;  // "dlock05"

// The header at the beginning of the file. The checksum covers the fields after it and
// the payload.
struct RecordHead {
  std::uint64_t format = dlock::local::format;
  std::uint64_t checksum = 0;
  std::uint64_t sequence = 0;
  std::int64_t boot = 0;  // nanoseconds
  std::int64_t wall = 0;  // microseconds
  std::uint32_t size = 0;
  std::uint32_t half = 0;
};
static_assert(sizeof(RecordHead) == record_head_size);

std::uint64_t checksum_of(const RecordHead& head, std::string_view payload) {
  constexpr auto covered = offsetof(RecordHead, sequence);
  const auto* fields = reinterpret_cast<const char*>(&head) + covered;
  return checksum(payload, checksum({fields, sizeof head - covered}));
}

// How often a record is read again if its checksum does not match: two changes during one
// read are rare, and do not happen ten times in a row.
constexpr int most_reads = 10;

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

FileKey key_of(const LockName& name, StateKind kept) {
  std::string text(ending(kept));
  text += '\0';  // never part of a name
  text += name.name_space;
  text += '\0';
  text += name.name;
  const auto hash = ::XXH3_128bits(text.data(), text.size());
  char hex[digits + 1];
  std::snprintf(hex, sizeof hex, "%016" PRIx64 "%016" PRIx64, hash.high64, hash.low64);
  FileKey key;
  key.file = hex;
  key.file += ending(kept);
  // Two locks that share a byte by chance only wait for each other.
  constexpr std::uint64_t first = all_locks_mutex + 1;
  key.mutex = static_cast<MutexByte>(first + hash.low64 % (first - 1));
  return key;
}

std::string with_name(const LockName& name, std::string_view value) {
  std::string payload;
  payload.reserve(2 + name.name_space.size() + name.name.size() + value.size());
  for (const auto* part : {&name.name_space, &name.name}) {
    payload += static_cast<char>(part->size());  // 255 at most
    payload += *part;
  }
  payload += value;
  return payload;
}

std::optional<Named> named_in(std::string_view payload) {
  Named named;
  for (auto* part : {&named.name.name_space, &named.name.name}) {
    if (payload.empty()) return std::nullopt;
    const std::size_t size = static_cast<unsigned char>(payload.front());
    if (size > payload.size() - 1) return std::nullopt;
    *part = payload.substr(1, size);
    payload.remove_prefix(1 + size);
  }
  if (!is_valid(named.name)) return std::nullopt;
  named.value = payload;
  return named;
}

std::optional<StateKind> kind_of(std::string_view file) {
  for (const auto kept : {StateKind::lock, StateKind::limit}) {
    const auto end = ending(kept);
    if (file.size() == digits + end.size() && file.ends_with(end) &&
        std::all_of(file.begin(), file.begin() + digits, [](char c) {
          return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        })) {
      return kept;
    }
  }
  return std::nullopt;
}

bool is_record_file_size(std::uint64_t size) {
  return std::has_single_bit(size) && size >= smallest_record_file &&
         size <= largest_record_file;
}

std::optional<std::size_t> record_file_size(std::size_t payload_size) {
  auto size = smallest_record_file;
  while (size <= largest_record_file && half_capacity(size) < payload_size) size *= 2;
  return size <= largest_record_file ? std::optional(size) : std::nullopt;
}

std::size_t half_capacity(std::size_t file_size) {
  return (file_size - sizeof(RecordHead)) / 2;
}

std::size_t half_begin(std::size_t file_size, unsigned half) {
  return sizeof(RecordHead) + half * half_capacity(file_size);
}

std::optional<Record> record_in(std::string_view file) {
  if (!is_record_file_size(file.size())) return std::nullopt;
  RecordHead head;
  std::memcpy(&head, file.data(), sizeof head);
  if (head.format != format || head.half > 1 || head.size > half_capacity(file.size()) ||
      head.boot < 0 || !is_possible(WallTime(head.wall))) {
    return std::nullopt;
  }
  const auto payload = file.substr(half_begin(file.size(), head.half), head.size);
  if (head.checksum != checksum_of(head, payload)) return std::nullopt;
  return Record{payload,
                head.sequence,
                {Clock::time_point(nanoseconds(head.boot)), WallTime(head.wall)},
                head.half};
}

bool is_of_another_format(std::string_view file) {
  constexpr std::string_view mark = "dlock";
  std::uint64_t found = 0;
  if (!file.starts_with(mark) || file.size() < sizeof found) return false;
  std::memcpy(&found, file.data(), sizeof found);
  return found != format;
}

std::optional<std::uint64_t> sequence_in(std::string_view head) {
  RecordHead fields;
  if (head.size() < sizeof fields) return std::nullopt;
  std::memcpy(&fields, head.data(), sizeof fields);
  return fields.sequence;
}

std::string record_head(const Record& record) {
  RecordHead head;
  head.sequence = record.sequence;
  head.boot = record.written.boot.time_since_epoch().count();
  head.wall = record.written.wall.count();
  head.size = static_cast<std::uint32_t>(record.payload.size());
  head.half = record.half;
  head.checksum = checksum_of(head, record.payload);
  std::string bytes(sizeof head, '\0');
  std::memcpy(bytes.data(), &head, sizeof head);
  return bytes;
}

std::string record_file(std::size_t file_size, const Record& record) {
  auto bytes = record_head(record);
  bytes += record.payload;
  bytes.resize(file_size);
  return bytes;
}

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
  read(static_cast<std::size_t>(status.st_size), access);
}

// The size of a file never changes: a larger file is a new one.
void RecordFile::read(std::size_t size, Access access) {
  if (!is_record_file_size(size)) {
    throw damaged(path(), size < smallest_record_file ? "truncated" : "damaged");
  }
  for (int reads = 1;; ++reads) {
    const auto bytes = contents_of(file_.get(), size, path());
    if (bytes.size() < size) throw damaged(path(), "truncated");
    if (const auto record = record_in(bytes)) {
      size_ = size;
      payload_ = record->payload;
      sequence_ = record->sequence;
      written_ = record->written;
      half_ = record->half;
      return;
    }
    // Its mutex is held, so no other process writes to it.
    if (access == Access::write || reads == most_reads) {
      if (is_of_another_format(bytes)) {
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
    throw Failure::unreachable(printable(path()) +
                               " would become too large: too many waiters");
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
  const Record record{payload, sequence_ + 1, now, 0};
  Draft draft(folder_, name_, O_RDWR, "cannot write " + printable(path()));
  draft.write(record_file(size, record));
  draft.put_in_place();
  file_ = draft.file();
  size_ = size;
  half_ = 0;
  sequence_ = record.sequence;
  written_ = now;
}

bool RecordFile::has_changed() const {
  if (!file_) return false;
  struct stat status {};
  char head[record_head_size];
  const auto size = ::pread(file_.get(), head, sizeof head, 0);
  return ::fstat(file_.get(), &status) != 0 || status.st_nlink == 0 || size < 0 ||
         sequence_in({head, static_cast<std::size_t>(size)}) != sequence_;
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

Damaged without_state(const RecordFile& file, StateKind kept) {
  return damaged(file.path(), std::string("damaged (it does not hold the state of its ") +
                                  (kept == StateKind::lock ? "lock)" : "limit)"));
}

std::optional<StoredState> stored_in(const RecordFile& file, StateKind kept) {
  const auto named = named_in(file.payload());
  if (!named) return std::nullopt;
  if (kept == StateKind::lock) {
    auto state = decoded(named->value);
    if (state) return StoredState{named->name, std::move(*state)};
  } else {
    auto state = decoded_limit(named->value);
    if (state) return StoredState{named->name, std::move(*state)};
  }
  return std::nullopt;
}

namespace {

template <typename T>
T state_of(const RecordFile& file, const LockName& name, StateKind kept) {
  if (!file.exists()) return {};
  auto found = stored_in(file, kept);
  if (!found || found->name != name) throw without_state(file, kept);
  return std::move(std::get<T>(found->state));
}

}  // namespace

State state_in(const RecordFile& file, const LockName& name) {
  return state_of<State>(file, name, StateKind::lock);
}

LimitState limit_in(const RecordFile& file, const LockName& name) {
  return state_of<LimitState>(file, name, StateKind::limit);
}

}  // namespace dlock::local
