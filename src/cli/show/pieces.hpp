// Output that may be long, such as that about 100,000 locks.
#pragma once

#include <functional>
#include <string>

namespace dlock {

// Receives text in pieces.
using ShowText = std::function<void(const std::string&)>;

// Passes text on in pieces, so that there is never all of it in memory.
class Pieces {
 public:
  explicit Pieces(const ShowText& show) : show_(show) {}

  void add(const std::string& text) {
    text_ += text;
    constexpr std::size_t most = 64u << 10;
    if (text_.size() >= most) flush();
  }
  // To be called at the end.
  void flush() {
    show_(text_);
    text_.clear();
  }

 private:
  const ShowText& show_;
  std::string text_;
};

}  // namespace dlock
