// Cached values of a local store: a file each, below its directory `cache`.
//
// A file is a line that says what it is, and then the value. It is written beside its
// place and renamed into it, and not synced: values end with the boot they are from.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lock/lease.hpp"
#include "lock/value.hpp"
#include "store/local/directory.hpp"

namespace dlock::local {

// What the first line says.
struct ValueHead {
  std::string boot;  // own_epoch(), for the two moments
  Clock::time_point fresh_until;
  Clock::time_point there_until;
  LockName name;  // the file's own name is only a hash of it
  std::size_t size = 0;
};

// The line, with a checksum over itself and `bytes` at its end.
std::string value_line(const ValueHead& head, std::string_view bytes);

// The head of a file that begins with `text`, whatever its checksum says; nothing if that
// is no such line.
std::optional<ValueHead> value_head_from(std::string_view text);

// The value in a file, for this name at this moment. Damage is said without the file's
// name.
ValueLookup value_from(std::string text, const LockName& name, const std::string& boot,
                       Clock::time_point now);

class CacheFiles {
 public:
  explicit CacheFiles(const Directory& directory) : directory_(directory) {}

  // A value that is written, and seen by nobody until it is in its place. Removed with
  // this object if it never gets there.
  class Draft {
   public:
    Draft(Draft&& other) noexcept;
    Draft& operator=(Draft&&) = delete;
    Draft(const Draft&) = delete;
    Draft& operator=(const Draft&) = delete;
    ~Draft();

    // Puts the value in the place of what is there, and removes what else in its
    // directory is of no use any more. One at a time: the caller sees to that. Throws
    // Failure, and then nothing has changed.
    void put_in_place();

   private:
    friend class CacheFiles;
    explicit Draft(Directory folder) : folder_(std::move(folder)) {}
    struct Leftover {
      std::string name;
      ino_t inode;
    };

    Directory folder_;
    std::string name_;      // where it goes
    std::string own_name_;  // where it is, empty once it is in its place
    std::vector<Leftover> leftovers_;
  };

  // Throws Failure where something stands in the way; damage of the file is said.
  ValueLookup get(const LockName& name) const;

  // The same, without the bytes, whose checksum is not looked at.
  ValueLook look(const LockName& name) const;

  // Throws Failure: the disk is full, say. Nothing is left of it then.
  Draft write(const LockName& name, std::string_view bytes, Lifetime lifetime) const;

  // There is no file for this name afterwards. Throws Failure.
  void forget(const LockName& name) const;

 private:
  struct Opened;
  static std::optional<Opened> opened(const Directory& folder, const std::string& file,
                                      std::string& damage);
  std::optional<Directory> folder_of(const std::string& file,
                                     Directory::Missing missing) const;
  static std::vector<Draft::Leftover> leftovers_in(const Directory& folder);

  const Directory& directory_;
};

}  // namespace dlock::local
