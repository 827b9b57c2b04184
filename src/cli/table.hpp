// Text in columns and in colour, for a terminal or a pipe.
#pragma once

#include <string>
#include <vector>

namespace dlock {

enum class Paint { plain, bold, green, yellow, red };

// `text` in that colour if `wanted`.
std::string colored(const std::string& text, Paint paint, bool wanted);

// How many columns a text takes without colour: code points; near enough for the names of
// hosts and locks.
std::size_t columns_of(const std::string& text);

// Columns as wide as their widest cell; the last one as it is, and the only one that may
// be coloured.
class Table {
 public:
  explicit Table(std::vector<std::string> titles) { rows_.push_back(std::move(titles)); }

  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  std::string text(const std::string& indent, bool color) const;

 private:
  std::vector<std::size_t> widths() const;

  std::vector<std::vector<std::string>> rows_;
};

}  // namespace dlock
