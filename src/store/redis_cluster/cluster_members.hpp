// What the members of a cluster report about each other, as plain functions on values,
// and the hint which of them to ask first.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lock/lease.hpp"
#include "store/redis/reply.hpp"
#include "store/store_url.hpp"

namespace dlock::redis_cluster {

// The address in "MOVED 3999 127.0.0.1:6381" or "ASK ..."; `by`, the sender, is used for
// a host that is left out. Nothing for other errors.
std::optional<ServerAddress> pointed_to(const redis::Reply& error,
                                        const ServerAddress& by);

// The primaries in the reply to CLUSTER SLOTS, each once, and how many slots they have.
// `by`, the sender, is used for a host that is left out.
struct Primaries {
  std::vector<ServerAddress> addresses;
  unsigned slots = 0;
};
constexpr unsigned all_slots = 16384;
std::optional<Primaries> primaries_from(const redis::Reply& slots,
                                        const ServerAddress& by);

// How many replicas of the sender of CLUSTER NODES a majority of primaries has not marked
// as failed. A replica that only the sender suspects counts: a primary that is cut off
// would suspect the replica that takes its place.
unsigned count_replicas_up(std::string_view nodes);

// A hint which member owned a lock last, so that the next run asks that member first
// instead of being redirected by another. It saves a connection, two round trips
// (on loopback a run without it takes 1.07 times as long: three masters, median of 120
// pairs), and decides nothing: it only selects among the servers that the URL names, and
// a wrong member redirects.

// The contents of a hint file, and back; nothing unless hint_text() could have written
// it.
std::string hint_text(const ServerAddress& address);
std::optional<ServerAddress> hint_from(std::string_view text);

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

  std::optional<ServerAddress> read();

  // Stores a hint for later runs, atomically, and only if it differs from the one last
  // read or written.
  void write(const ServerAddress& address);

 private:
  std::string runtime_directory_;
  std::string name_;
  std::optional<ServerAddress> last_;
};

}  // namespace dlock::redis_cluster
