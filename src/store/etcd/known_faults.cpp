#include "store/etcd/known_faults.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace dlock::etcd {
namespace {

// etcd issue 20418, pull requests 21399 (a read index is used again) and 21375 (a read
// index and a change of the leader).
constexpr std::string_view old_reads =
    "a read can return old data after a member was paused or the leader changed; runs do "
    "not rely on reads, but status, list and history can show an old state";

// etcd issue 15247, pull request 16822.
constexpr std::string_view revoked_leases =
    "a former leader can revoke leases that were renewed since, and a run loses its lock";

// etcd pull request 13854 and the changelog of 3.5.3.
constexpr std::string_view lost_writes =
    "a member that crashes under load can lose acknowledged writes";

constexpr KnownFault table[] = {
    {{3, 4, 20}, {3, 4, 42}, old_reads},     {{3, 5, 0}, {3, 5, 28}, old_reads},
    {{3, 6, 0}, {3, 6, 9}, old_reads},       {{3, 4, 0}, {3, 4, 31}, revoked_leases},
    {{3, 5, 0}, {3, 5, 13}, revoked_leases}, {{3, 5, 0}, {3, 5, 3}, lost_writes},
};

}  // namespace

Version version_from(std::string_view text) {
  Version version{};
  const auto* at = text.data();
  const auto* end = at + text.size();
  for (auto& number : version) {
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc()) break;
    at = next == end ? end : next + 1;
  }
  return version;
}

std::string text_of(const Version& version) {
  return std::to_string(version[0]) + "." + std::to_string(version[1]) + "." +
         std::to_string(version[2]);
}

std::vector<KnownFault> known_faults_of(const Version& version) {
  std::vector<KnownFault> found;
  std::copy_if(std::begin(table), std::end(table), std::back_inserter(found),
               [&](const KnownFault& fault) {
                 return fault.first <= version && version < fault.mended;
               });
  return found;
}

}  // namespace dlock::etcd
