// The faults of versions of etcd that matter to locks.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace dlock::etcd {

// Major, minor and patch.
using Version = std::array<int, 3>;

// "3.4.23" as three numbers; 0 for each that is missing.
Version version_from(std::string_view text);
std::string text_of(const Version& version);

// The versions from `first` on have the fault, up to the one of the same minor version
// that mends it.
struct KnownFault {
  Version first;
  Version mended;
  std::string_view what;  // and what it means for locks
};

// Those of a version.
std::vector<KnownFault> known_faults_of(const Version& version);

}  // namespace dlock::etcd
