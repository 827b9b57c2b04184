// The files of the state folder: each holds the state of a lock, of a limit, or the
// folder's head, as a record in two halves, one of which is complete at every moment.
//
// A header names the current half. A new value is written to the other half first, then
// the header in a single write; so a writer that is killed at any point leaves the old
// value or the new one. Reading needs no mutex: if two writers changed the file
// meanwhile, the checksum does not match, and the file is read again. If it still does
// not match, the file is damaged; an older value is never used instead, as it could grant
// a held lock.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "store/directory.hpp"
#include "store/local/sessions.hpp"
#include "util/failure.hpp"
#include "util/fd.hpp"

namespace dlock::local {

// The bytes of a file from `at` on, up to `most`. Throws Failure: "cannot read `what`".
std::string contents_of(int fd, std::size_t most, std::string_view what, off_t at = 0);

// A file that takes the place of another one once it is complete. Until then it has
// another name, under which the destructor removes it.
class Draft {
 public:
  // Creates it as `name`.new, in place of one that a killed process left behind, or under
  // a name that no other process uses. `what` is the message of failures: "cannot write
  // /dir/fences".
  Draft(const Directory& folder, const std::string& name, int flags,
        const std::string& what);
  Draft(const Directory& folder, std::string name, std::string draft_name, int flags,
        std::string what);
  Draft(Draft&& other) noexcept;
  Draft& operator=(Draft&&) = delete;
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft();

  // Each throws Failure.
  void write(std::string_view bytes);
  void put_in_place(bool syncs = false);  // to the disk, before it replaces the other

  // The open file, once it is in place.
  Fd file() { return std::move(file_); }
  int fd() const { return file_.get(); }

 private:
  int folder_;
  std::string name_;
  std::string draft_name_;  // empty once it is in place
  std::string what_;
  Fd file_;
};

enum class StateKind { lock, limit };

// Lock names may contain characters that file names may not. A file is therefore named
// after a hash (XXH3, 128 bits) of namespace and name, and contains both for comparison.
struct FileKey {
  std::string file;  // "0123456789abcdef0123456789abcdef.lock"
  MutexByte mutex = 0;
};

FileKey key_of(const LockName& name, StateKind kept);

// The payload of a file: the name followed by the value; and the inverse, which is
// nothing if the bytes do not have that form.
std::string with_name(const LockName& name, std::string_view value);
struct Named {
  LockName name;
  std::string_view value;
};
std::optional<Named> named_in(std::string_view payload);

// What a file of the state folder holds; nothing for others.
std::optional<StateKind> kind_of(std::string_view file);

// Sizes of whole files. A lock with 20 past runs fits into the smallest, one with some
// ten thousand waiters into the largest.
constexpr std::size_t smallest_record_file = 8192;
constexpr std::size_t largest_record_file = std::size_t{16} << 20;

struct Record {
  std::string_view payload;
  std::uint64_t sequence = 0;  // number of writes so far
  Moment written;
  unsigned half = 0;
};

// Whether a file of this size can be a record's.
bool is_record_file_size(std::uint64_t size);

// The size of a file with room for a payload of this size; nothing if it is too large.
std::optional<std::size_t> record_file_size(std::size_t payload_size);

// The record in the bytes of a whole file; nothing if they do not match their checksum.
std::optional<Record> record_in(std::string_view file);

// Whether the file was written by a version of dlock with another format.
bool is_of_another_format(std::string_view file);

// The sequence number in the first bytes of a file; nothing if these are too few.
constexpr std::size_t record_head_size = 48;
std::optional<std::uint64_t> sequence_in(std::string_view head);

// Where a half begins in a file of that size, and how many bytes it holds.
std::size_t half_begin(std::size_t file_size, unsigned half);
std::size_t half_capacity(std::size_t file_size);

// The header that makes `record` current.
std::string record_head(const Record& record);

// A whole file of that size with `record` in its first half.
std::string record_file(std::size_t file_size, const Record& record);

// A file that holds one record.
class RecordFile {
 public:
  enum class Access { read, write };

  // Reads the file `name`, if it exists. For `write` the caller must hold the file's
  // mutex for the lifetime of this object. Throws Failure: `misconfigured` with the
  // file's name if it is damaged or not a dlock file.
  RecordFile(const Directory& folder, std::string name, Access access);

  const std::string& name() const { return name_; }
  std::string path() const { return folder_.path_of(name_); }
  bool exists() const { return static_cast<bool>(file_); }

  // Of the last read or write; empty and 0 if the file does not exist.
  const std::string& payload() const { return payload_; }
  std::uint64_t sequence() const { return sequence_; }
  Moment written() const { return written_; }

  // Replaces the payload. The file has room for a later payload that is `spare` bytes
  // longer. Throws Failure (for example a full disk); then nothing has changed.
  void write(std::string payload, Moment now, std::size_t spare = 0);

  // Whether a payload of this size fits without a larger file.
  bool has_room_for(std::size_t payload_size) const {
    return file_ && record_file_size(payload_size).value_or(SIZE_MAX) <= size_;
  }

  // Whether the file was written to, or replaced, since it was read.
  bool has_changed() const;

  // When it was last changed, as of the time when it was opened.
  WallTime changed() const { return changed_; }

  // Wakes the processes that watch the file (inotify(7)), and makes it look used.
  void touch() const;

  // Removes the file, if it exists.
  void remove();

 private:
  void read(std::size_t size, Access access);
  bool write_in_place(std::string_view payload, Moment now);
  void replace(std::string_view payload, std::size_t size, Moment now);

  const Directory& folder_;
  std::string name_;
  Fd file_;
  WallTime changed_{};
  std::size_t size_ = 0;
  std::string payload_;
  std::uint64_t sequence_ = 0;
  Moment written_;
  unsigned half_ = 0;
};

// A file without the contents that it should have, or none; see Files::begin_claim and
// Files::sound_head, which replace some.
class Damaged final : public Failure {
 public:
  using Failure::Failure;
};

// Misconfigured, "`path` is `what`", and what to do.
Damaged damaged(const std::string& path, const std::string& what);

// What a file holds of a lock or a limit.
struct StoredState {
  LockName name;
  std::variant<State, LimitState> state;

  const State& of_lock() const { return std::get<State>(state); }
};

// For a file that does not hold the state that it should.
Damaged without_state(const RecordFile& file, StateKind kept);

// Nothing if it does not hold the state of one.
std::optional<StoredState> stored_in(const RecordFile& file, StateKind kept);

// The state of `name` in the file that key_of() names; empty if the file does not exist.
// Throws Damaged if it does not hold that.
State state_in(const RecordFile& file, const LockName& name);
LimitState limit_in(const RecordFile& file, const LockName& name);

}  // namespace dlock::local
