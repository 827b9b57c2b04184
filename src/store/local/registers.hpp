// The file `fences`: the greatest fence admitted for each resource.
//
// Unlike the state of the locks, it must survive a reboot and a power failure: it is a
// separate file, synced, and replaced as a whole.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lock/store.hpp"
#include "store/directory.hpp"

namespace dlock::local {

// By resource; unused resources are absent.
using FencesAdmitted = std::map<LockName, Fence>;

// The registers as text, one line each, followed by a checksum.
std::string registers_text(const FencesAdmitted& fences);

// The inverse; nothing if `text` is not what registers_text wrote.
std::optional<FencesAdmitted> registers_from(std::string_view text);

// The caller holds registers_mutex.
class Registers {
 public:
  explicit Registers(const Directory& directory) : directory_(directory) {}

  // Admits `fence` for `resource` unless a greater one was admitted before. An admitted
  // fence is on disk when this returns. Throws Failure if the file is damaged or cannot
  // be written; then nothing has changed.
  Admission admit(const LockName& resource, Fence fence);

  // Throws Failure if the file cannot be read or is damaged.
  void check() const { read(); }

 private:
  FencesAdmitted read() const;
  void replace(const std::string& text);

  const Directory& directory_;
};

}  // namespace dlock::local
