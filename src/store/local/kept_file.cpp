#include "store/local/kept_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "util/failure.hpp"

namespace dlock::local {
namespace {

// `name`, which no file has then.
std::string without_old(const Directory& folder, std::string name) {
  ::unlinkat(folder.fd(), name.c_str(), 0);
  return name;
}

}  // namespace

std::string contents_of(int fd, std::size_t most, const std::string& what, off_t at) {
  std::string text(most, '\0');
  std::size_t size = 0;
  while (size < most) {
    const auto got =
        ::pread(fd, text.data() + size, most - size, at + static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_failure_of(errno, "cannot read " + what);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

Draft::Draft(const Directory& folder, const std::string& name, int flags,
             const std::string& what)
    : Draft(folder, name, without_old(folder, name + ".new"), flags, what) {}

Draft::Draft(const Directory& folder, std::string name, std::string draft_name, int flags,
             std::string what)
    : folder_(folder.fd()), name_(std::move(name)), what_(std::move(what)) {
  file_ = folder.create_file(draft_name, flags);
  draft_name_ = std::move(draft_name);
}

Draft::Draft(Draft&& other) noexcept
    : folder_(other.folder_),
      name_(std::move(other.name_)),
      draft_name_(std::exchange(other.draft_name_, {})),
      what_(std::move(other.what_)),
      file_(std::move(other.file_)) {}

Draft::~Draft() {
  if (!draft_name_.empty()) ::unlinkat(folder_, draft_name_.c_str(), 0);
}

void Draft::write(std::string_view bytes) {
  if (!write_all(file_.get(), bytes)) throw failure_of(errno, what_);
}

void Draft::put_in_place(bool syncs) {
  if ((syncs && ::fsync(file_.get()) != 0) ||
      ::renameat(folder_, draft_name_.c_str(), folder_, name_.c_str()) != 0) {
    throw failure_of(errno, what_);
  }
  draft_name_.clear();
}

}  // namespace dlock::local
