// Formats text in columns and colors.
#pragma once

#include <string>
#include <vector>

namespace dlock {

enum class Paint { plain, bold, green, yellow, red };

// `text` in that color if `wanted`.
std::string colored(const std::string& text, Paint paint, bool wanted);

// Columns as wide as their widest cell.
class Table {
 public:
  explicit Table(std::vector<std::string> titles) { rows_.push_back(std::move(titles)); }

  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // The table as lines of at most `columns`, if that is not 0: long cells are cut first,
  // and if too little of them is left, the last columns of the table are dropped.
  std::string text(const std::string& indent, bool color, std::size_t columns = 0) const;

 private:
  std::vector<std::size_t> widths() const;

  std::vector<std::vector<std::string>> rows_;
};

}  // namespace dlock
