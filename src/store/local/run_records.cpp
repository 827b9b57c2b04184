#include "store/local/run_records.hpp"

#include <cstdint>
#include <cstring>

#include "lock/history.hpp"
#include "store/local/state.hpp"

namespace dlock::local {
namespace {

using Size = std::uint32_t;  // stands before each record

// Takes the first record off `records`; nothing if there is none, or none that is whole.
std::optional<std::string_view> next_record(std::string_view& records) {
  Size size = 0;
  if (records.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, records.data(), sizeof size);
  if (size > records.size() - sizeof size) return std::nullopt;
  const auto record = records.substr(sizeof size, size);
  records.remove_prefix(sizeof size + size);
  return record;
}

}  // namespace

std::string with_run(std::string_view records, const RunInfo& run) {
  auto rest = records;
  std::size_t count = 1;
  while (count < runs_kept && next_record(rest)) ++count;

  const auto record = encoded(run);
  const auto size = static_cast<Size>(record.size());
  std::string bytes(sizeof size, '\0');
  std::memcpy(bytes.data(), &size, sizeof size);
  bytes += record;
  bytes += records.substr(0, records.size() - rest.size());
  return bytes;
}

std::optional<std::vector<RunInfo>> runs_from(std::string_view records) {
  std::vector<RunInfo> runs;
  while (!records.empty()) {
    const auto record = next_record(records);
    auto run = record ? decoded_run(*record) : std::nullopt;
    if (!run) return std::nullopt;
    runs.push_back(std::move(*run));
  }
  return runs;
}

}  // namespace dlock::local
