#include "store/redis/hint.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "store/local/directory.hpp"
#include "store/redis/keys.hpp"
#include "store/url_parts.hpp"
#include "util/checksum.hpp"
#include "util/failure.hpp"

namespace dlock::redis {
namespace {

using local::Directory;

// The longest host and the longest id have room in it.
constexpr std::size_t longest_text = 512;
constexpr std::size_t longest_id = 64;

// For the locks of one URL.
constexpr std::uint64_t most_files = 64;

bool is_id(std::string_view text) {
  const auto is_digit = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  };
  return text.size() <= longest_id && std::all_of(text.begin(), text.end(), is_digit);
}

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

// What is longer than any hint is cut, and is none then.
std::string contents_of(const Fd& file) {
  std::array<char, longest_text + 1> buffer;
  const auto size = ::read(file.get(), buffer.data(), buffer.size());
  return {buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

// A draft is named by who writes it, for others may write just now. If two are of one
// name all the same, one half of a text may be put in place, which is no hint.
void put(const Directory& folder, const std::string& name, const std::string& text) {
  const auto draft = name + "." + std::to_string(::getpid());
  ::unlinkat(folder.fd(), draft.c_str(), 0);  // of one who was killed here
  const auto file = folder.create_file(draft, O_WRONLY);
  if (!write_all(file.get(), text) ||
      ::renameat(folder.fd(), draft.c_str(), folder.fd(), name.c_str()) != 0) {
    ::unlinkat(folder.fd(), draft.c_str(), 0);
  }
}

}  // namespace

std::string hint_text(const Hint& hint) {
  const ServerAddress server{hint.address.host, hint.address.port};
  return server_text(server, 0) + " " + hint.id + "\n";
}

std::optional<Hint> hint_from(std::string_view text) {
  const auto space = text.find(' ');
  if (space == std::string_view::npos || text.size() > longest_text) return std::nullopt;
  const auto id = text.substr(space + 1, text.size() - space - 2);
  if (!is_id(id)) return std::nullopt;
  Hint hint;
  try {
    auto server = server_from(text.substr(0, space), 0);
    hint = {{std::move(server.host), server.port}, std::string(id)};
  } catch (const Failure&) {
    return std::nullopt;
  }
  // What has no port, or no end, is not what was written.
  if (hint.address.port == 0 || hint_text(hint) != text) return std::nullopt;
  return hint;
}

std::string hint_name(const std::string& url) {
  return "server." + checksum_text(checksum(url));
}

std::string hint_name(const std::string& url, const LockName& lock) {
  return hint_name(url) + "." + std::to_string(checksum(key_of(lock)) % most_files);
}

bool may_be_hinted(const Target& target) {
  const bool is_anonymous =
      target.user.empty() && !target.password && target.password_file.empty();
  return is_anonymous || (target.tls && !target.tls->insecure);
}

std::string runtime_directory() {
  const char* path = std::getenv("XDG_RUNTIME_DIR");
  return path != nullptr && *path == '/' ? path : "";
}

std::optional<Hint> HintFile::read() {
  try {
    if (const auto folder = folder_in(runtime_directory_, Directory::Missing::accept)) {
      const auto file = folder->open_file(name_, O_RDONLY, false);
      if (file) last_ = hint_from(contents_of(file));
    }
  } catch (const Failure&) {
    // Then there is none.
  }
  return last_;
}

void HintFile::write(const Hint& hint) {
  if (hint == last_) return;
  last_ = hint;
  const auto text = hint_text(hint);
  if (hint_from(text) != hint) return;  // a name that no URL could have
  try {
    const auto folder = folder_in(runtime_directory_, Directory::Missing::create);
    if (folder) put(*folder, name_, text);
  } catch (const Failure&) {
    // Then the next run finds the server as this one did.
  }
}

}  // namespace dlock::redis
