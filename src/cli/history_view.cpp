#include "cli/history_view.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "cli/lock_view.hpp"
#include "cli/speaker.hpp"
#include "cli/table.hpp"
#include "util/text.hpp"
#include "util/width.hpp"

namespace dlock {
namespace {

constexpr std::size_t bar_columns = 10;

// Whether the locale's characters are UTF-8, as setlocale(3) would find it.
bool is_utf8_locale() {
  for (const auto* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale(value);
    return locale.find("UTF-8") != std::string_view::npos ||
           locale.find("utf8") != std::string_view::npos;
  }
  return false;
}

// In halves of a column, where there are such; what ran at all has one.
std::string bar(milliseconds duration, milliseconds longest, bool blocks) {
  const auto halves = static_cast<std::int64_t>(2 * bar_columns);
  const auto length =
      longest.count() == 0
          ? 1
          : std::max<std::int64_t>(duration.count() * halves / longest.count(), 1);
  if (!blocks) return std::string(static_cast<std::size_t>((length + 1) / 2), '#');
  std::string text;
  for (auto i = length / 2; i > 0; --i) text += "\u2588";
  if (length % 2 == 1) text += "\u258c";
  return text;
}

milliseconds longest_of(const std::vector<RunInfo>& runs) {
  milliseconds longest{0};
  for (const auto& run : runs) {
    longest = std::max(longest, run.duration.value_or(milliseconds(0)));
  }
  return longest;
}

Paint paint_of(const RunInfo& run) {
  if (run.outcome == "running") return Paint::yellow;
  return is_failure(run) ? Paint::red : Paint::green;
}

std::string seconds_of(WallTime moment) {
  constexpr auto fraction = std::string_view(".250Z").size();
  const auto text = rfc3339(moment);
  return text.substr(0, text.size() - fraction) + "Z";
}

enum class Detail { bars, moments, least };

std::string table_of(const std::vector<RunInfo>& runs, WallTime now, const Paper& paper,
                     Detail detail) {
  const bool with_bars = detail == Detail::bars;
  const bool with_moments = detail != Detail::least;
  std::vector<std::string> titles{"AGO", "TOOK"};
  if (with_moments) titles.insert(titles.begin(), "STARTED");
  if (with_bars) titles.emplace_back("");
  titles.emplace_back("HOST");
  titles.emplace_back("OUTCOME");
  Table table(std::move(titles));
  const auto longest = longest_of(runs);
  for (const auto& run : runs) {
    const auto ago = std::max(now - run.started, WallTime(0));
    std::vector<std::string> cells;
    if (with_moments) cells.push_back(seconds_of(run.started));
    cells.push_back(for_people(ago));
    cells.push_back(run.duration ? for_people(*run.duration) : "-");
    if (with_bars) {
      cells.push_back(run.duration ? bar(*run.duration, longest, paper.blocks) : "");
    }
    cells.push_back(printable(run.host, 64));
    cells.push_back(colored(outcome_of(run), paint_of(run), paper.color));
    table.add(std::move(cells));
  }
  return table.text("", paper.color, paper.columns);
}

// The widest line.
std::size_t columns_of_lines(std::string_view text) {
  std::size_t widest = 0;
  while (!text.empty()) {
    const auto end = text.find('\n');
    widest = std::max(widest, columns_of(text.substr(0, end)));
    text.remove_prefix(end + 1);
  }
  return widest;
}

}  // namespace

Paper paper_of_output(bool color) {
  Paper paper;
  paper.color = color;
  paper.columns = columns_of_output();
  paper.blocks = is_utf8_locale();
  return paper;
}

std::string history_text(const std::vector<RunInfo>& runs, WallTime now,
                         const Paper& paper) {
  if (runs.empty()) return "";
  if (paper.columns == 0) return table_of(runs, now, paper, Detail::moments);
  auto uncut = paper;
  uncut.columns = 0;
  for (const auto detail : {Detail::bars, Detail::moments}) {
    auto text = table_of(runs, now, uncut, detail);
    if (columns_of_lines(text) <= paper.columns) return text;
  }
  return table_of(runs, now, paper, Detail::least);
}

}  // namespace dlock
