// A file in the state folder that holds one record (record.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "store/directory.hpp"
#include "store/local/record.hpp"
#include "util/failure.hpp"

namespace dlock::local {

class RecordFile {
 public:
  enum class Access { read, write };

  // Reads the file `name`, if it exists. For `write` the caller must hold the file's
  // mutex for the lifetime of this object. Throws Failure: `misconfigured` with the
  // file's name if it is damaged or not a dlock file.
  RecordFile(const Directory& folder, std::string name, Access access);

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
  void read(std::uint64_t size, Access access);
  bool write_in_place(std::string_view payload, Moment now);
  void replace(std::string_view payload, std::size_t size, Moment now);
  std::string path() const { return folder_.path_of(name_); }

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

}  // namespace dlock::local
