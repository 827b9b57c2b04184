#include "store/redis_cluster/hint.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "store/local/directory.hpp"
#include "store/redis/keys.hpp"
#include "store/url_parts.hpp"
#include "util/checksum.hpp"
#include "util/failure.hpp"

namespace dlock::redis_cluster {
namespace {

using local::Directory;

// Enough for the longest host.
constexpr std::size_t longest_text = 512;

// For the locks of one URL.
constexpr std::uint64_t most_files = 64;

// Throws Failure.
std::optional<Directory> folder_in(const std::string& runtime_directory,
                                   Directory::Missing missing) {
  if (runtime_directory.empty()) return std::nullopt;
  const auto parent =
      Directory::open(runtime_directory, true, Directory::Missing::accept);
  struct stat status {};
  if (!parent || ::fstat(parent->fd(), &status) != 0) return std::nullopt;
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return std::nullopt;
  return parent->folder("dlock", missing);
}

// Longer contents are truncated, and then not a valid hint.
std::string contents_of(const Fd& file) {
  std::array<char, longest_text + 1> buffer;
  const auto size = ::read(file.get(), buffer.data(), buffer.size());
  return {buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

// The draft's name contains our pid, as other processes may write at the same time. If
// two have the same name nevertheless (pid namespaces), a partial text may be put in
// place, which is not a valid hint.
void put(const Directory& folder, const std::string& name, const std::string& text) {
  // Beyond the limit, a write not only fails but also raises SIGXFSZ.
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < text.size()) return;
  const auto draft = name + "." + std::to_string(::getpid());
  ::unlinkat(folder.fd(), draft.c_str(), 0);  // left by a process that was killed here
  const auto file = folder.create_file(draft, O_WRONLY);
  if (!write_all(file.get(), text) ||
      ::renameat(folder.fd(), draft.c_str(), folder.fd(), name.c_str()) != 0) {
    ::unlinkat(folder.fd(), draft.c_str(), 0);
  }
}

}  // namespace

std::string hint_text(const Address& address) {
  return server_text({address.host, address.port}, 0) + "\n";
}

std::optional<Address> hint_from(std::string_view text) {
  if (text.empty() || text.size() > longest_text) return std::nullopt;
  Address address;
  try {
    auto server = server_from(text.substr(0, text.size() - 1), 0);
    address = {std::move(server.host), server.port};
  } catch (const Failure&) {
    return std::nullopt;
  }
  // Text without a port or a line break was not written by hint_text().
  if (address.port == 0 || hint_text(address) != text) return std::nullopt;
  return address;
}

std::string hint_name(const std::string& url, const LockName& lock) {
  return "server." + checksum_text(checksum(url)) + "." +
         std::to_string(checksum(redis::key_of(lock)) % most_files);
}

std::string runtime_directory() {
  const char* path = std::getenv("XDG_RUNTIME_DIR");
  return path != nullptr && *path == '/' ? path : "";
}

std::optional<Address> HintFile::read() {
  try {
    if (const auto folder = folder_in(runtime_directory_, Directory::Missing::accept)) {
      const auto file = folder->open_file(name_, O_RDONLY, false);
      if (file) last_ = hint_from(contents_of(file));
    }
  } catch (const Failure&) {
    // Then there is no hint.
  }
  return last_;
}

void HintFile::write(const Address& address) {
  if (address == last_) return;
  last_ = address;
  const auto text = hint_text(address);
  if (hint_from(text) != address) return;  // a host that no URL could contain
  try {
    const auto folder = folder_in(runtime_directory_, Directory::Missing::create);
    if (folder) put(*folder, name_, text);
  } catch (const Failure&) {
    // Then the next run finds the member without a hint.
  }
}

}  // namespace dlock::redis_cluster
