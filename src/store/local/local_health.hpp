// Examines the directory of a local store, and judges what it finds. It changes nothing
// and creates nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lock/lease.hpp"
#include "store/checks.hpp"

namespace dlock::local {

// The message of a Failure, if something could not be used.
using Trouble = std::optional<std::string>;

// Room on the file system, as statvfs(3) has it for this user.
struct Room {
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> files;  // nothing where they are not counted
};

struct DirectoryFacts : StoreFacts {
  std::string path;
  bool exists = false;
  std::string parent;                // where it would be created: the part that exists
  bool can_be_created = false;       // in `parent`
  bool parents_are_missing = false;  // more than the last part, the only one we create

  Trouble unusable;           // the directory cannot be used for locks
  bool is_read_only = false;  // its file system
  bool is_link_or_file = false;
  bool can_be_written = false;
  std::string file_system;  // "ext4"; empty if its type is unknown
  bool forgets = false;     // it is in memory

  bool has_state = false;  // of this boot
  Trouble busy;            // another process holds the mutex of the set-up
  Trouble state;
  Trouble mended;           // what the next run mends
  std::uint64_t locks = 0;  // known to it
  Trouble fences;
  std::optional<Fence> fence_far_ahead;  // that runs.jsonl contains

  std::vector<std::string> stale;      // files that dlock never removes
  std::vector<std::string> abandoned;  // files that the next run removes
  std::optional<Room> room;
};

// One finding for each check; a check that depends on another follows it.
std::vector<Finding> findings_of(const DirectoryFacts& facts);

// `path` as for LocalStore. Waits up to `timeout` for the mutex of the set-up. Throws
// Failure (exhausted) if descriptors or memory are short.
DirectoryFacts facts_of(const std::string& path, milliseconds timeout);

}  // namespace dlock::local
