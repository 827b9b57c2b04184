// A note on which member had a lock the last time, so that the next run asks that one
// first, and need not be sent there by another one. It saves a connection and decides
// nothing: only a server that the URL names is asked because of it, and that one sends on
// whoever it cannot serve.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lock/lease.hpp"
#include "store/redis/announced.hpp"

namespace dlock::redis_cluster {

using redis::Address;

// As it stands in a file, and back: nothing for what hint_text() would not have written.
std::string hint_text(const Address& address);
std::optional<Address> hint_from(std::string_view text);

// The file for a lock of a URL. It tells neither; and there are so few for a URL that no
// number of locks fills the directory. Locks that share one mislead each other, which
// costs what it costs without a hint.
std::string hint_name(const std::string& url, const LockName& lock);

// $XDG_RUNTIME_DIR; empty if that is no absolute path.
std::string runtime_directory();

// The file `name` in the folder `dlock` of a runtime directory. Folder and file are made
// when they are needed. A file that is not as dlock makes it (somebody else's, writable
// for others, a link, too long) is no hint, and is replaced by the next one; such a
// folder is left alone. Nothing fails for want of a hint.
class HintFile {
 public:
  // Touches nothing yet. There are no hints where `runtime_directory` is empty.
  HintFile(std::string runtime_directory, std::string name)
      : runtime_directory_(std::move(runtime_directory)), name_(std::move(name)) {}

  std::optional<Address> read();

  // For those who come later; in one step, and only if it says something else than what
  // was read or written last.
  void write(const Address& address);

 private:
  std::string runtime_directory_;
  std::string name_;
  std::optional<Address> last_;
};

}  // namespace dlock::redis_cluster
