#include "cli/terminal/bounded_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "cli/args/settings.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// How much is read back at once.
constexpr std::size_t block = 64 * 1024;

// Opens a file without a name, which no other process can open.
Fd nameless_file() {
  const auto directory = Spool::directory();
  Fd file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600));
  if (file) return file;
  // Some file systems have only files with names.
  auto path = directory + "/dlock-output.XXXXXX";
  file = Fd(::mkostemp(path.data(), O_CLOEXEC));
  if (file) ::unlink(path.c_str());
  return file;
}

}  // namespace

std::string Spool::directory() {
  const auto own = environment("TMPDIR");
  return own.starts_with('/') ? own : "/tmp";
}

std::size_t Spool::write(std::size_t at, std::string_view bytes) {
  const auto begin = at;
  if (at < memory_most) {
    const auto part = bytes.substr(0, memory_most - at);
    if (memory_.size() < at + part.size()) memory_.resize(at + part.size());
    part.copy(memory_.data() + at, part.size());
    bytes.remove_prefix(part.size());
    at += part.size();
  }
  if (bytes.empty()) return at - begin;
  if (!file_) file_ = nameless_file();
  if (!file_) return at - begin;
  while (!bytes.empty()) {
    const auto size = ::pwrite(file_.get(), bytes.data(), bytes.size(),
                               static_cast<off_t>(at - memory_most));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    bytes.remove_prefix(static_cast<std::size_t>(size));
    at += static_cast<std::size_t>(size);
  }
  return at - begin;
}

std::string Spool::read(std::size_t at, std::size_t size) const {
  if (at < memory_most) {
    const auto end = std::min(memory_.size(), at + size);
    auto text = memory_.substr(std::min(at, end), end - std::min(at, end));
    const auto left = size - text.size();
    return left == 0 ? text : text + read(at + text.size(), left);
  }
  std::string text(size, '\0');
  const auto read = file_ ? ::pread(file_.get(), text.data(), size,
                                    static_cast<off_t>(at - memory_most))
                          : 0;
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(read, 0)));
  return text;
}

// A piece is counted as 16 bytes, so that a change of the stream after each byte does not
// take more memory than the limit allows, give or take a factor of two.
BoundedOutput::BoundedOutput(std::size_t most)
    : head_most_(most / 2),
      tail_most_(most - most / 2),
      most_pieces_(std::max<std::size_t>(most / 16, 64)) {}

void BoundedOutput::append(Pieces& pieces, Stream stream, std::size_t size) {
  if (size == 0) return;
  if (!pieces.empty() && pieces.back().stream == stream) {
    pieces.back().size += size;
  } else {
    pieces.push_back({stream, size});
  }
}

void BoundedOutput::keep(Pieces& pieces, std::size_t at, Stream stream,
                         std::string_view bytes) {
  const auto kept = spool_.write(at, bytes);
  const auto lost = bytes.size() - kept;
  if (lost > 0 && error_ == 0) error_ = errno;
  append(pieces, stream, kept);
  append(pieces, Stream::lost, lost);
  left_out_ += lost;
}

void BoundedOutput::add(Stream stream, std::string_view bytes) {
  added_ += bytes.size();
  recent_.append(bytes.substr(bytes.size() - std::min(bytes.size(), recent_least)));
  if (recent_.size() > 2 * recent_least) recent_.erase(0, recent_.size() - recent_least);
  bytes.remove_prefix(fill_head(stream, bytes));
  while (!bytes.empty()) {
    const auto part = bytes.substr(0, tail_most_);
    add_to_tail(stream, part);
    bytes.remove_prefix(part.size());
  }
}

std::size_t BoundedOutput::fill_head(Stream stream, std::string_view bytes) {
  if (head_is_full_) return 0;
  const auto part = bytes.substr(0, head_most_ - head_size_);
  if (!part.empty()) {
    keep(head_, head_size_, stream, part);
    head_size_ += part.size();
  }
  head_is_full_ = head_size_ == head_most_ || head_.size() == most_pieces_;
  return part.size();
}

void BoundedOutput::add_to_tail(Stream stream, std::string_view bytes) {
  const auto wanted = tail_size_ + bytes.size();
  if (wanted > tail_most_) drop_from_tail(wanted - tail_most_);
  if (tail_.size() >= most_pieces_) drop_from_tail(tail_.front().size);
  while (!bytes.empty()) {
    const auto at = (tail_at_ + tail_size_) % tail_most_;
    const auto part = bytes.substr(0, tail_most_ - at);
    keep(tail_, head_most_ + at, stream, part);
    tail_size_ += part.size();
    bytes.remove_prefix(part.size());
  }
}

void BoundedOutput::drop_from_tail(std::size_t size) {
  tail_at_ = (tail_at_ + size) % tail_most_;
  tail_size_ -= size;
  while (size > 0) {
    auto& first = tail_.front();
    const auto part = std::min(size, first.size);
    if (first.stream != Stream::lost) left_out_ += part;  // else it was counted
    first.size -= part;
    size -= part;
    if (first.size == 0) tail_.pop_front();
  }
}

std::string BoundedOutput::last_lines() const {
  return dlock::last_lines(recent_, added_ > recent_.size());
}

void BoundedOutput::replay(const std::function<void(Stream, std::string_view)>& take,
                           const std::function<void()>& gap) const {
  std::size_t at = 0;
  const auto replay_piece = [&](const Piece& piece, std::size_t wrap) {
    for (auto left = piece.size; left > 0;) {
      auto part = std::min(left, block);
      if (wrap > 0) part = std::min(part, wrap - at % wrap);
      if (piece.stream != Stream::lost) {
        take(piece.stream, wrap > 0 ? spool_.read(head_most_ + at % wrap, part)
                                    : spool_.read(at, part));
      }
      at += part;
      left -= part;
    }
  };
  for (const auto& piece : head_) replay_piece(piece, 0);
  if (left_out_ > 0) gap();
  at = tail_at_;
  for (const auto& piece : tail_) replay_piece(piece, tail_most_);
}

std::string last_lines(std::string_view text, bool is_cut, std::size_t most) {
  if (text.size() > BoundedOutput::recent_least) {
    text.remove_prefix(text.size() - BoundedOutput::recent_least);
    is_cut = true;
  }
  if (text.ends_with('\n')) text.remove_suffix(1);
  auto lines = split(text, '\n');
  // The first one is only the end of a line.
  if (is_cut && lines.size() > 1) lines.erase(lines.begin());
  const auto first = lines.size() - std::min(lines.size(), most);
  std::string last;
  for (auto i = first; i < lines.size(); ++i) {
    if (i > first) last += '\n';
    last += printable(lines[i], 4 * BoundedOutput::recent_least);
  }
  return last;
}

}  // namespace dlock
