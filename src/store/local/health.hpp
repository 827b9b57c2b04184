// What is known of the directory of a local store, and what that means for locks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lock/finding.hpp"
#include "util/failure.hpp"

namespace dlock::local {

// Something that could not be used, and why: the message of a Failure.
using Trouble = std::optional<std::string>;

// Room on the file system, as statvfs(3) has it for this user.
struct Room {
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> files;  // nothing where they are not counted
};

struct Facts {
  std::string path;
  bool exists = false;
  std::string parent;           // where it would be created: what there is of the path
  bool can_be_created = false;  // there
  bool parents_are_missing = false;  // others than the last part, which only we create

  Trouble unusable;  // the directory is no place for locks
  bool everybody_writes = false;
  bool is_link_or_file = false;
  bool is_on_network = false;
  bool can_be_written = false;
  std::string file_system;  // "ext4"; empty if it has no name here
  bool forgets = false;     // it is in memory

  bool has_state = false;  // of this boot
  Trouble busy;            // somebody holds the mutex of the set-up
  Trouble state;
  std::uint64_t locks = 0;  // known to it
  Trouble fences;

  std::vector<std::string> stale;      // files that nobody will remove
  std::vector<std::string> abandoned;  // files that whoever comes next removes
  std::optional<Room> room;
};

// A line for each check, in the order in which one leads to the next.
std::vector<Finding> findings_of(const Facts& facts);

}  // namespace dlock::local
