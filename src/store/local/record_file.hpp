// A file of the state folder that holds one record (record.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "store/local/directory.hpp"
#include "store/local/record.hpp"
#include "util/failure.hpp"

namespace dlock::local {

class RecordFile {
 public:
  enum class Access { read, write };

  // Reads the file `name`, if there is one. For `write` the caller holds the mutex that
  // goes with the file, and keeps it for as long as it uses this. Throws Failure:
  // `misconfigured` with the file's name if it is damaged or no file of dlock's.
  RecordFile(const Directory& folder, std::string name, Access access);

  bool exists() const { return static_cast<bool>(file_); }

  // Of what was read, or written last; empty and 0 if there is no file.
  const std::string& payload() const { return payload_; }
  std::uint64_t sequence() const { return sequence_; }
  Moment written() const { return written_; }

  // Puts `payload` in the place of what is there; a later one that is longer by `spare`
  // then fits, too, without the file having to grow. Throws Failure (a full disk), and
  // nothing has changed then.
  void write(std::string payload, Moment now, std::size_t spare = 0);

  // Whether a payload of this size needs no larger file.
  bool has_room_for(std::size_t payload_size) const {
    return file_ && record_file_size(payload_size).value_or(SIZE_MAX) <= size_;
  }

  // Whether somebody has written to the file, or replaced it, since it was read.
  bool has_changed() const;

  // Has those who watch the file (inotify(7)) look at it.
  void touch() const;

  // There is no such file afterwards.
  void remove();

 private:
  void read(std::uint64_t size, Access access);
  bool write_in_place(std::string_view payload, Moment now);
  void replace(std::string_view payload, std::size_t size, Moment now);
  std::string path() const { return folder_.path_of(name_); }

  const Directory& folder_;
  std::string name_;
  Fd file_;
  std::size_t size_ = 0;
  std::string payload_;
  std::uint64_t sequence_ = 0;
  Moment written_;
  unsigned half_ = 0;
};

// What is to be said of a file that cannot be used: misconfigured, "`path` is `what`",
// and what to do about it.
Failure damaged(const std::string& path, const std::string& what);

}  // namespace dlock::local
