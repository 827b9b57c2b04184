#include "cli/show/doctor_view.hpp"

#include <algorithm>

#include "cli/show/screen.hpp"
#include "util/text.hpp"
#include "util/utf8.hpp"

namespace dlock {
namespace {

using Level = Finding::Level;

std::string name_of(Level level) {
  constexpr const char* names[] = {"ok", "info", "warning", "error"};
  return names[static_cast<std::size_t>(level)];
}

std::string in_color(Level level, const std::string& text, bool wanted) {
  constexpr Paint paints[] = {Paint::green, Paint::plain, Paint::yellow, Paint::red};
  return colored(text, paints[static_cast<std::size_t>(level)], wanted);
}

// Nothing to do is no problem.
Level level_of(const Examination& examination) {
  const auto worst = worst_of(examination.findings);
  return worst == Level::info ? Level::ok : worst;
}

// `text` after `indent` columns that are already used, wrapped at `columns` unless that
// leaves too little room; 0: on one line.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t columns) {
  constexpr std::size_t least = 24;
  if (columns < indent + least) return text;
  const auto width = columns - indent;
  std::string out;
  std::size_t used = 0;
  for (const auto word : split(text, ' ')) {
    const auto length = columns_of(word);
    const bool fits = used + 1 + length <= width;
    if (used > 0) out += fits ? " " : "\n" + std::string(indent, ' ');
    used = used > 0 && fits ? used + 1 + length : length;
    out += word;
  }
  return out;
}

std::int64_t not_made(const Examination& examination) {
  return std::ranges::count(examination.findings, false, &Finding::is_made);
}

// "no problems found", "1 error, 2 warnings; 1 check could not be run"
std::string summary_of(const Examination& examination) {
  std::vector<std::string> problems;
  for (const auto level : {Level::error, Level::warning}) {
    const auto count = std::ranges::count(examination.findings, level, &Finding::level);
    if (count > 0) problems.push_back(counted(count, name_of(level)));
  }
  const auto text = problems.empty() ? "no problems found" : listed(problems);
  const auto unknown = not_made(examination);
  return unknown == 0 ? text
                      : text + "; " + counted(unknown, "check") + " could not be run";
}

}  // namespace

Json json_of(const Examination& examination, const std::string& store) {
  Json findings = Json::array();
  for (const auto& finding : examination.findings) {
    findings.push_back(Json{
        {"check", finding.check},
        {"level", name_of(finding.level)},
        {"message", finding.message},
        {"advice", text_or_null(finding.advice)},
        {"checked", finding.is_made},
    });
  }
  const auto& trip = examination.round_trip;
  return Json{
      {"store", store},
      {"level", name_of(level_of(examination))},
      {"not_checked", not_made(examination)},
      {"findings", std::move(findings)},
      {"round_trip_ms",
       trip ? Json(static_cast<double>(trip->count()) / 1000) : Json(nullptr)},
      {"smallest_ttl_ms", or_null(examination.smallest_ttl)},
  };
}

std::string examination_text(const Examination& examination, const std::string& store,
                             const DoctorFormat& format) {
  constexpr std::size_t level_columns = 9;  // "warning" and a gap
  std::size_t check_columns = 0;
  for (const auto& finding : examination.findings) {
    check_columns = std::max(check_columns, finding.check.size() + 2);
  }
  const auto indent = level_columns + check_columns;
  std::string text;
  for (const auto& finding : examination.findings) {
    if (format.only_trouble && finding.level < Level::warning) continue;
    const auto level = name_of(finding.level);
    text += in_color(finding.level, level, format.color) +
            std::string(level_columns - level.size(), ' ') + finding.check +
            std::string(check_columns - finding.check.size(), ' ') +
            wrapped(finding.message, indent, format.columns) + "\n";
    if (finding.advice.empty()) continue;
    text += std::string(indent, ' ') + "-> " +
            wrapped(finding.advice, indent + 3, format.columns) + "\n";
  }
  const auto worst = level_of(examination);
  if (format.only_trouble && worst == Level::ok) return text;
  return text + in_color(worst, summary_of(examination), format.color) + " in " +
         printable(store) + "\n";
}

}  // namespace dlock
