#include "cli/table.hpp"

#include <algorithm>

namespace dlock {
namespace {

const char* code_of(Paint paint) {
  switch (paint) {
    case Paint::green: return "\x1b[32m";
    case Paint::yellow: return "\x1b[33m";
    case Paint::red: return "\x1b[31m";
    case Paint::bold: return "\x1b[1m";
    case Paint::plain: break;
  }
  return "\x1b[0m";
}

}  // namespace

std::string colored(const std::string& text, Paint paint, bool wanted) {
  return wanted && paint != Paint::plain ? code_of(paint) + text + "\x1b[0m" : text;
}

std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0u) != 0x80;
  }));
}

std::string Table::text(const std::string& indent, bool color) const {
  const auto widest = widths();
  std::string out;
  for (const auto& row : rows_) {
    std::string line = indent;
    for (std::size_t column = 0; column < row.size(); ++column) {
      line += row[column];
      if (column + 1 == row.size()) break;
      line.append(widest[column] - columns_of(row[column]) + 2, ' ');
    }
    while (line.ends_with(' ')) line.pop_back();
    const bool titles = &row == &rows_.front();
    out += (titles ? colored(line, Paint::bold, color) : line) + "\n";
  }
  return out;
}

// The width of each column: that of its widest cell.
std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widest(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      widest[column] = std::max(widest[column], columns_of(row[column]));
    }
  }
  return widest;
}

}  // namespace dlock
