#include "cli/show/table.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "util/utf8.hpp"

namespace dlock {
namespace {

constexpr std::size_t gap = 2;  // between columns

// Columns are not cut below this width; a shorter text would be useless.
constexpr std::size_t least = 8;
constexpr std::size_t least_at_end = 4;

std::size_t total(const std::vector<std::size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), gap * (widths.size() - 1));
}

// `widths` with the widest columns narrowed until all fit; nothing if that would leave
// too little of them.
std::optional<std::vector<std::size_t>> narrowed(std::vector<std::size_t> widths,
                                                 std::size_t columns) {
  while (total(widths) > columns) {
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest > least) {
      --*widest;
    } else if (widths.back() > least_at_end) {
      --widths.back();
    } else {
      return std::nullopt;
    }
  }
  return widths;
}

// The widths that fit, dropping the last columns if necessary.
std::vector<std::size_t> fitted(std::vector<std::size_t> widths, std::size_t columns) {
  for (; widths.size() > 1; widths.pop_back()) {
    if (auto fits = narrowed(widths, columns)) return *fits;
  }
  return {std::min(widths.front(), columns)};
}

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

std::string Table::text(const std::string& indent, bool color,
                        std::size_t columns) const {
  auto widest = widths();
  if (columns > 0) widest = fitted(widest, columns - std::min(columns, indent.size()));
  std::string out;
  for (const auto& row : rows_) {
    std::string line = indent;
    for (std::size_t column = 0; column < std::min(row.size(), widest.size()); ++column) {
      if (column > 0) line.append(gap, ' ');
      const auto cell = cut_to(row[column], widest[column]);
      line += cell;
      line.append(widest[column] - columns_of(cell), ' ');
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
