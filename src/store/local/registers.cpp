#include "store/local/registers.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "util/checksum.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

constexpr const char* file_name = "fences";
constexpr const char* draft_name = "fences.new";

std::string last_line(std::string_view text) {
  return "sum " + checksum_text(checksum(text)) + "\n";
}

// "NAMESPACE NAME FENCE", both names percent-encoded.
std::optional<std::pair<LockName, Fence>> register_from(std::string_view line) {
  const auto first = line.find(' ');
  const auto second = line.find(' ', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) {
    return std::nullopt;
  }
  const auto name_space = percent_decoded(line.substr(0, first));
  const auto name = percent_decoded(line.substr(first + 1, second - first - 1));
  Fence fence;
  const auto* last = line.data() + line.size();
  const auto [end, error] = std::from_chars(line.data() + second + 1, last, fence.number);
  if (!name_space || !name || error != std::errc() || end != last) return std::nullopt;
  LockName resource{*name_space, *name};
  if (!is_valid(resource)) return std::nullopt;
  return std::pair(std::move(resource), fence);
}

// Some hundred thousand registers; dlock writes no larger file.
constexpr std::size_t longest_file = 16 << 20;

// The file's contents up to the limit, and a little more if it is longer.
std::string contents_of(int fd) {
  std::string text;
  char buffer[65'536];
  while (text.size() <= longest_file) {
    const auto size = ::read(fd, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) throw failure_of(errno, "cannot read the fences");
    if (size == 0) break;
    text.append(buffer, static_cast<std::size_t>(size));
  }
  return text;
}

}  // namespace

std::string registers_text(const FencesAdmitted& fences) {
  std::string text;
  for (const auto& [resource, fence] : fences) {
    text += percent_encoded(resource.name_space) + " " + percent_encoded(resource.name) +
            " " + std::to_string(fence.number) + "\n";
  }
  return text + last_line(text);
}

std::optional<FencesAdmitted> registers_from(std::string_view text) {
  const auto sum_size = last_line("").size();
  if (text.size() < sum_size) return std::nullopt;
  auto lines = text.substr(0, text.size() - sum_size);
  if (text.substr(lines.size()) != last_line(lines)) return std::nullopt;
  FencesAdmitted fences;
  while (!lines.empty()) {
    const auto end = lines.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const auto found = register_from(lines.substr(0, end));
    if (!found) return std::nullopt;
    fences.insert(*found);
    lines.remove_prefix(end + 1);
  }
  return fences;
}

Admission Registers::admit(const LockName& resource, Fence fence) {
  auto fences = read();
  auto& greatest = fences[resource];
  if (fence < greatest) return Admission::stale;
  if (greatest < fence) {
    greatest = fence;
    replace(registers_text(fences));
  }
  // Even if the fence was there already: its writer may have been killed before the sync.
  // Some file systems cannot sync a directory (EINVAL).
  if (::fsync(directory_.fd()) != 0 && errno != EINVAL) {
    throw failure_of(errno, "cannot sync " + printable(directory_.path()));
  }
  return Admission::admitted;
}

FencesAdmitted Registers::read() const {
  const Fd file = directory_.open_file(file_name, O_RDONLY, false);
  if (!file) return {};
  const auto text = contents_of(file.get());
  auto fences = text.size() > longest_file ? std::nullopt : registers_from(text);
  if (!fences) {
    throw Failure(Failure::Kind::misconfigured,
                  printable(directory_.path_of(file_name)) +
                      " is damaged; without it stale writers would be admitted: restore "
                      "it, or move it away once there are none");
  }
  return std::move(*fences);
}

void Registers::replace(const std::string& text) {
  ::unlinkat(directory_.fd(), draft_name, 0);
  const Fd draft = directory_.create_file(draft_name, O_WRONLY);
  if (!write_all(draft.get(), text) || ::fsync(draft.get()) != 0 ||
      ::renameat(directory_.fd(), draft_name, directory_.fd(), file_name) != 0) {
    const int error = errno;
    ::unlinkat(directory_.fd(), draft_name, 0);
    throw failure_of(error, "cannot write " + printable(directory_.path_of(file_name)));
  }
}

}  // namespace dlock::local
