// What makes a file no database that could be used.
#pragma once

#include <sys/types.h>

#include <string>

#include "lock/errors.hpp"

namespace dlock::local {

// Misconfigured: the file `path` is `what` ("truncated"), and what to do about it.
Failure damaged(const std::string& path, const std::string& what);

// Throws damaged() unless the file of this length is LMDB's and as long as its newest
// meta page needs: a mapped page that the file does not have raises SIGBUS, so this
// comes before anything is mapped.
void check_length(int fd, const std::string& path, off_t size);

}  // namespace dlock::local
