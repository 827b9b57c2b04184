// How a process ends whose mapped database breaks while it is in use.
#pragma once

#include <string>

namespace dlock::local {

// While one of these lives LMDB is at work, and a bad address is due to a damaged page.
class LmdbAtWork {
 public:
  LmdbAtWork();
  ~LmdbAtWork();
  LmdbAtWork(const LmdbAtWork&) = delete;
  LmdbAtWork& operator=(const LmdbAtWork&) = delete;
};

// From here on a read of the mapped database that the file cannot serve (it was cut while
// open), and one within a transaction that a damaged page has led astray, ends the
// process with 78 and one line that names `path`.
void say_when_the_map_breaks(const std::string& path);

// Ends it so at once: for what LMDB asserts and a damaged page can break, where it would
// abort. Only after say_when_the_map_breaks().
[[noreturn]] void end_by_damage();

}  // namespace dlock::local
