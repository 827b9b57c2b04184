#include "store/local/damage.hpp"

#include <unistd.h>

#include <cstdint>

#include "util/text.hpp"

namespace dlock::local {
namespace {

// The parts of an LMDB meta page that say how long the file has to be (lmdb 0.9, data
// version 1; the layout is part of its file format).
struct MetaPage {
  std::uint64_t page_number;
  std::uint16_t padding;
  std::uint16_t flags;
  std::uint32_t bounds;
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t address;
  std::uint64_t map_size;
  std::uint32_t page_size;  // the first field of the free list's record
  std::uint8_t tables[92];
  std::uint64_t last_page;
  std::uint64_t transaction;
};
static_assert(sizeof(MetaPage) == 152);
constexpr std::uint32_t lmdb_magic = 0xBEEFC0DE;

}  // namespace

Failure damaged(const std::string& path, const std::string& what) {
  return Failure(Failure::Kind::misconfigured,
                 printable(path) + " is " + what +
                     "; move it away once no command runs under its locks");
}

void check_length(int fd, const std::string& path, off_t size) {
  constexpr off_t smallest_page = 512;
  MetaPage first{};
  if (::pread(fd, &first, sizeof first, 0) != sizeof first || first.magic != lmdb_magic ||
      first.version != 1 || first.page_size < smallest_page || first.page_size > 65'536) {
    throw damaged(path, "not a database of dlock's");
  }
  MetaPage second{};
  if (::pread(fd, &second, sizeof second, first.page_size) != sizeof second ||
      second.magic != lmdb_magic) {
    throw damaged(path, "truncated");
  }
  const auto& newest = second.transaction > first.transaction ? second : first;
  const auto pages = static_cast<std::uint64_t>(size) / first.page_size;
  if (newest.last_page >= pages) throw damaged(path, "truncated");
}

}  // namespace dlock::local
