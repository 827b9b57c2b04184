// A hint which member owned a lock last, so that the next run asks that member first
// instead of being redirected by another. It saves a connection and decides nothing: it
// only selects among the servers that the URL names, and a wrong member redirects.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lock/lease.hpp"
#include "store/redis/announced.hpp"

namespace dlock::redis_cluster {

using redis::Address;

// The contents of a hint file, and back; nothing unless hint_text() could have written
// it.
std::string hint_text(const Address& address);
std::optional<Address> hint_from(std::string_view text);

// The name of the hint file for a lock of a URL. It reveals neither. The number of files
// for a URL is bounded, so that many locks do not fill the directory. Locks that share a
// file mislead each other, which costs no more than having no hint.
std::string hint_name(const std::string& url, const LockName& lock);

// $XDG_RUNTIME_DIR; empty if that is not an absolute path.
std::string runtime_directory();

// The file `name` in the folder `dlock` of a runtime directory. Folder and file are
// created when needed. A file that is not as dlock creates it (another owner, writable
// for others, a link, too long) is ignored and replaced by the next hint; a folder like
// that is left alone. Errors are ignored: a missing hint is not a failure.
class HintFile {
 public:
  // Touches no file yet. There are no hints if `runtime_directory` is empty.
  HintFile(std::string runtime_directory, std::string name)
      : runtime_directory_(std::move(runtime_directory)), name_(std::move(name)) {}

  std::optional<Address> read();

  // Stores a hint for later runs, atomically, and only if it differs from the one last
  // read or written.
  void write(const Address& address);

 private:
  std::string runtime_directory_;
  std::string name_;
  std::optional<Address> last_;
};

}  // namespace dlock::redis_cluster
