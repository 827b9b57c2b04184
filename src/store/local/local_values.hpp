// Cached values, stored under the name of a lock, one file each, in the directory `cache`
// of a store.
//
// A file is a header line and then the value. It is written under a temporary name and
// renamed into place, but not synced: values do not outlive the boot they were stored in.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lock/lease.hpp"
#include "lock/store.hpp"
#include "store/directory.hpp"
#include "store/local/files.hpp"
#include "store/local/record_file.hpp"

namespace dlock::local {

// The contents of the header line.
struct ValueHead {
  std::string boot;  // own_epoch(), for the two moments
  Clock::time_point fresh_until;
  Clock::time_point there_until;
  LockName name;  // the file's own name is only a hash of it
  std::size_t size = 0;
};

// The header line, which ends with a checksum of itself and `bytes`.
std::string value_line(const ValueHead& head, std::string_view bytes);

// The header of a file that begins with `text`; the checksum is not verified. Nothing if
// that is not a header line.
std::optional<ValueHead> value_head_from(std::string_view text);

// The value in a file, for this name at this moment. A report of damage does not contain
// the file's name.
ValueLookup value_from(std::string text, const LockName& name, const std::string& boot,
                       Clock::time_point now);

class CacheFiles {
 public:
  explicit CacheFiles(const Directory& directory) : directory_(directory) {}

  // A value that is written but not visible until it is put in place.
  class Pending {
   public:
    // Replaces the value in place, and removes obsolete files from its directory. The
    // caller holds the mutex of the lock. Throws Failure; then nothing has changed.
    void put_in_place();

   private:
    friend class CacheFiles;
    struct Leftover {
      std::string name;
      ino_t inode;
    };
    Pending(Directory folder, Draft draft, std::vector<Leftover> leftovers)
        : folder_(std::move(folder)),
          draft_(std::move(draft)),
          leftovers_(std::move(leftovers)) {}

    Directory folder_;
    Draft draft_;
    std::vector<Leftover> leftovers_;
  };

  // Throws Failure if the file cannot be read; a damaged file is reported in the result.
  ValueLookup get(const LockName& name) const;

  // The same without the bytes, whose checksum is not verified.
  ValueLook look(const LockName& name) const;

  // Throws Failure, for example if the disk is full; then no file is left.
  Pending write(const LockName& name, std::string_view bytes, Lifetime lifetime) const;

  // Removes the file for this name, if there is one. Throws Failure.
  void forget(const LockName& name) const;

 private:
  struct Opened;
  static std::optional<Opened> opened(const Directory& folder, const std::string& file,
                                      std::string& damage);
  template <typename Found, typename Read>
  Found read_file(const LockName& name, Read read) const;
  std::optional<Directory> folder_of(const std::string& file,
                                     Directory::Missing missing) const;
  static std::vector<Pending::Leftover> leftovers_in(const Directory& folder);

  const Directory& directory_;
};

// The values of a store. `files` must outlive it.
std::unique_ptr<ValueStore> value_store_of(Files& files);

}  // namespace dlock::local
