#include "store/redis_cluster/cluster_members.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "store/directory.hpp"
#include "store/redis/records.hpp"
#include "store/url_parts.hpp"
#include "util/bits.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock::redis_cluster {
namespace {

using redis::Reply;

constexpr auto npos = std::string_view::npos;

// The words of a line.
std::optional<ServerAddress> address_from(std::string_view host, std::int64_t port,
                                          const ServerAddress& by) {
  if (port < 1 || port > 65535) return std::nullopt;
  // Empty or "?" for an endpoint that the member itself does not know.
  const bool is_left_out = host.empty() || host == "?";
  return ServerAddress{is_left_out ? by.host : std::string(host),
                       static_cast<std::uint16_t>(port)};
}

bool has_flag(std::string_view flags, std::string_view flag) {
  const auto all = split(flags, ',');
  return std::ranges::find(all, flag) != all.end();
}

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

std::optional<ServerAddress> pointed_to(const Reply& error, const ServerAddress& by) {
  const auto words = split(error.text, ' ');
  if (!error.is_error() || words.size() != 3) return std::nullopt;
  const auto colon = words[2].rfind(':');
  if (colon == npos) return std::nullopt;
  const auto port = number_in<std::int64_t>(words[2].substr(colon + 1));
  if (!port) return std::nullopt;
  return address_from(words[2].substr(0, colon), *port, by);
}

std::optional<Primaries> primaries_from(const Reply& slots, const ServerAddress& by) {
  if (slots.kind != Reply::Kind::array) return std::nullopt;
  Primaries found;
  for (const auto& range : slots.elements) {
    // The first and the last slot, the primary, then its replicas.
    if (range.elements.size() < 3 || range.elements[2].elements.size() < 2) {
      return std::nullopt;
    }
    const auto first = range.elements[0].integer;
    const auto last = range.elements[1].integer;
    const auto& primary = range.elements[2].elements;
    auto address = address_from(primary[0].text, primary[1].integer, by);
    if (!address || first < 0 || last < first || last >= all_slots) return std::nullopt;
    found.slots += static_cast<unsigned>(last - first + 1);
    auto& addresses = found.addresses;
    if (std::ranges::find(addresses, *address) == addresses.end()) {
      addresses.push_back(std::move(*address));
    }
  }
  return found;
}

// Lines of "id address flags id-of-its-primary ...".
unsigned count_replicas_up(std::string_view nodes) {
  std::vector<std::vector<std::string_view>> members;
  for (const auto line : split(nodes, '\n')) {
    auto words = split(line, ' ');
    if (words.size() >= 4) members.push_back(std::move(words));
  }
  const auto self = std::ranges::find_if(
      members, [](const auto& member) { return has_flag(member[2], "myself"); });
  if (self == members.end()) return 0;
  return static_cast<unsigned>(std::ranges::count_if(members, [&](const auto& member) {
    const auto flags = member[2];
    return member[3] == (*self)[0] && has_flag(flags, "slave") &&
           !has_flag(flags, "fail");
  }));
}

std::string hint_text(const ServerAddress& address) {
  return server_text(address, 0) + "\n";
}

std::optional<ServerAddress> hint_from(std::string_view text) {
  if (text.empty() || text.size() > longest_text) return std::nullopt;
  ServerAddress address;
  try {
    address = server_from(text.substr(0, text.size() - 1), 0);
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

std::optional<ServerAddress> HintFile::read() {
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

void HintFile::write(const ServerAddress& address) {
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
