// The file `fences`: the greatest fence that each resource has admitted.
//
// Unlike the state of the locks it has to outlive a reboot and a power cut: it is a file
// of its own, synced, and replaced as a whole.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lock/store.hpp"
#include "store/local/directory.hpp"

namespace dlock::local {

// By resource; those never asked for are not there.
using FencesAdmitted = std::map<LockName, Fence>;

// The registers as text, a line each, with a checksum behind them.
std::string registers_text(const FencesAdmitted& fences);

// The inverse; nothing if `text` is not what registers_text wrote.
std::optional<FencesAdmitted> registers_from(std::string_view text);

// Whoever uses it holds the registers' gate.
class Registers {
 public:
  explicit Registers(const Directory& directory) : directory_(directory) {}

  // Admits `fence` for `resource`, or says that a greater one was. Once it has admitted
  // one, that is on the disk. Throws Failure: the file is damaged, or cannot be written,
  // and nothing has changed then.
  Admission admit(const LockName& resource, Fence fence);

  // Throws Failure if the file cannot be read or is damaged.
  void check() const { read(); }

 private:
  FencesAdmitted read() const;
  void replace(const std::string& text);

  const Directory& directory_;
};

}  // namespace dlock::local
