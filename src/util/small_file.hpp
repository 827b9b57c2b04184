// Files that the user names: settings, passwords, tokens, certificates and keys.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "util/failure.hpp"
#include "util/path_trust.hpp"

namespace dlock {

// How to read a file.
struct FileKind {
  std::string name;  // begins each message: "password file /etc/dlock/password"
  std::size_t most;  // bytes
  Use use;
  bool may_be_pipe = true;
  // Whether it is confidential: see exposure_of().
  bool is_secret = false;
  // The Failure for an errno of the file.
  Failure (*failure)(int, const std::string&) = failure_of;
};

struct SmallFile {
  std::string text;
  bool is_pipe = false;
};

// The content of the file at `path`. A pipe, such as <(...) of a shell, is read to its
// end and remembered for the rest of this process, because it can be read only once; its
// writer has five seconds. Throws Failure: `rejected` if the path is not to be trusted
// (util/path_trust.hpp) or its secret is exposed, `misconfigured` if the file is neither
// a regular file nor a pipe, is larger than `most`, or a pipe is silent, else what its
// errno means.
SmallFile small_file(const std::string& path, const FileKind& kind);

// Whether other users can read a secret. The rule, for password files and private keys:
// the permission of "others" counts where every user can reach the file. The group's does
// not, since it may be the one that a daemon runs as.
enum class Exposure {
  none,
  // They can, and so could the caller change that: it is refused.
  correctable,
  // They can, but the caller cannot change that: the file is on a read-only mount, or
  // another user's. That is how platforms hand out secrets, so it is a warning.
  given
};

struct SecretFacts {
  mode_t mode = 0;
  uid_t owner = 0;
  bool is_reachable = true;   // every user can search its directories
  bool is_read_only = false;  // its mount
};
Exposure exposure_of(const SecretFacts& facts, uid_t caller);

// Whether that file is a regular file that is exposed without a remedy. False if it
// cannot be examined.
bool is_given_to_everyone(const std::string& path);

}  // namespace dlock
