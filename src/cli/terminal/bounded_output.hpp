// Keeps what a command prints, in order, up to a limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "util/fd.hpp"

namespace dlock {

// Bytes by their position: in memory up to memory_most, then in a file without a name,
// which disappears with this process.
class Spool {
 public:
  static constexpr std::size_t memory_most = std::size_t{1} << 20;

  // Where what does not fit in memory is kept: TMPDIR, or /tmp.
  static std::string directory();

  // Returns how many of the bytes were written: fewer, with errno, if there is no room.
  std::size_t write(std::size_t at, std::string_view bytes);

  // Bytes that were written; fewer if they cannot be read.
  std::string read(std::size_t at, std::size_t size) const;

 private:
  std::string memory_;
  Fd file_;
};

// What a command prints on its two streams. If that is more than the limit, the first
// half of the limit and the last half stay.
class BoundedOutput {
 public:
  enum class Stream : std::uint8_t { output, error, lost };

  // `most` is in bytes, at least 1.
  explicit BoundedOutput(std::size_t most);

  void add(Stream stream, std::string_view bytes);

  // How many bytes in the middle were dropped, or could not be kept (errno in error()).
  std::uint64_t left_out() const { return left_out_; }
  int error() const { return error_; }

  // Calls `take` with what is kept, in order and in pieces; `gap` between the first half
  // and the last if anything was left out.
  void replay(const std::function<void(Stream, std::string_view)>& take,
              const std::function<void()>& gap) const;

  // The last lines that were added; see last_lines().
  std::string last_lines() const;

  // How many of the last bytes are at hand for that.
  static constexpr std::size_t recent_least = 4096;

 private:
  // Bytes that follow each other on one stream.
  struct Piece {
    Stream stream;
    std::size_t size;
  };
  using Pieces = std::deque<Piece>;

  std::size_t fill_head(Stream stream, std::string_view bytes);
  void add_to_tail(Stream stream, std::string_view bytes);
  void drop_from_tail(std::size_t size);
  void keep(Pieces& pieces, std::size_t at, Stream stream, std::string_view bytes);
  static void append(Pieces& pieces, Stream stream, std::size_t size);

  const std::size_t head_most_;
  const std::size_t tail_most_;
  const std::size_t most_pieces_;  // of each half
  Spool spool_;  // the first half, and then the last, which begins at tail_at_
  Pieces head_;
  Pieces tail_;
  std::size_t head_size_ = 0;
  bool head_is_full_ = false;
  std::size_t tail_at_ = 0;
  std::size_t tail_size_ = 0;
  std::uint64_t left_out_ = 0;
  int error_ = 0;
  std::uint64_t added_ = 0;  // bytes
  std::string recent_;
};

// The last lines of the last 4 KiB of a text, at most 20, in printable form and without a
// newline at the end. `is_cut`: the text is only the end of one, so its first line may
// not be whole, and counts only if it is the only one.
std::string last_lines(std::string_view text, bool is_cut, std::size_t most = 20);

}  // namespace dlock
