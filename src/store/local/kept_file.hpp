// How the files of a store are read and replaced.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "store/directory.hpp"
#include "util/fd.hpp"

namespace dlock::local {

// The bytes of a file from `at` on, up to `most`. Throws Failure: "cannot read `what`".
std::string contents_of(int fd, std::size_t most, const std::string& what, off_t at = 0);

// A file that takes the place of another one once it is complete. Until then it has
// another name, under which the destructor removes it.
class Draft {
 public:
  // Creates it as `name`.new, in place of one that a killed process left behind, or under
  // a name that no other process uses. `what` is the message of failures: "cannot write
  // /dir/fences".
  Draft(const Directory& folder, const std::string& name, int flags,
        const std::string& what);
  Draft(const Directory& folder, std::string name, std::string draft_name, int flags,
        std::string what);
  Draft(Draft&& other) noexcept;
  Draft& operator=(Draft&&) = delete;
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft();

  // Each throws Failure.
  void write(std::string_view bytes);
  void put_in_place(bool syncs = false);  // to the disk, before it replaces the other

  // The open file, once it is in place.
  Fd file() { return std::move(file_); }
  int fd() const { return file_.get(); }

 private:
  int folder_;
  std::string name_;
  std::string draft_name_;  // empty once it is in place
  std::string what_;
  Fd file_;
};

}  // namespace dlock::local
