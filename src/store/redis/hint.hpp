// A note on which server was the right one the last time, so that the next run begins
// there. It saves time and decides nothing: who follows it has the servers that the URL
// names, or the server itself, say that it is the right one still, and without it all is
// found as ever.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/lease.hpp"
#include "store/redis/announced.hpp"

namespace dlock::redis {

struct Hint {
  Address address;
  std::string id;  // by which the server knows itself; empty where it has none

  bool operator==(const Hint&) const = default;
};

// As it stands in a file, and back: nothing for what hint_text() would not have written.
std::string hint_text(const Hint& hint);
std::optional<Hint> hint_from(std::string_view text);

// The file for a URL, or for one of its locks. It tells neither; and there are so few for
// a URL that no number of locks fills the directory. Locks that share one mislead each
// other, and that is found out.
std::string hint_name(const std::string& url);
std::string hint_name(const std::string& url, const LockName& lock);

// Whether a server that nobody but a hint names may be contacted as `target` says: it was
// the right one once, and by now may be anybody's. So it is told no password, and no
// user, unless it shows a certificate first.
bool may_be_hinted(const Target& target);

// $XDG_RUNTIME_DIR; empty if that is no absolute path.
std::string runtime_directory();

// The file `name` in the folder `dlock` of a runtime directory. Folder and file are made
// when they are needed. Whatever is not as dlock makes it (somebody else's, writable for
// others, a link, too long) is left alone, and is no hint. Nothing fails for want of one.
class HintFile {
 public:
  // Touches nothing yet. There are no hints where `runtime_directory` is empty.
  HintFile(std::string runtime_directory, std::string name)
      : runtime_directory_(std::move(runtime_directory)), name_(std::move(name)) {}

  std::optional<Hint> read();

  // For those who come later; in one step, and only if it says something else than what
  // was read or written last.
  void write(const Hint& hint);

 private:
  std::string runtime_directory_;
  std::string name_;
  std::optional<Hint> last_;
};

}  // namespace dlock::redis
