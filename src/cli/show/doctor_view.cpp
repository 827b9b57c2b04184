#include "cli/show/doctor_view.hpp"

#include <algorithm>

#include "cli/show/screen.hpp"
#include "util/text.hpp"
#include "util/utf8.hpp"

namespace dlock {
namespace {

using Level = Finding::Level;

Paint paint_of(Level level) {
  if (level == Level::error) return Paint::red;
  return level == Level::warning ? Paint::yellow : Paint::green;
}

std::string colored(Level level, bool wanted) {
  const std::string text = name_of(level);
  return level == Level::info ? text : colored(text, paint_of(level), wanted);
}

// `text` after `indent` columns that are already used, wrapped at `columns` unless that
// leaves too little room; 0: on one line.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t columns) {
  constexpr std::size_t least = 24;
  if (columns < indent + least) return text;
  const auto width = columns - indent;
  std::string out;
  std::size_t used = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(' ', at), text.size());
    const auto word = text.substr(at, end - at);
    const auto length = columns_of(word);
    if (used > 0 && used + 1 + length > width) {
      out += "\n" + std::string(indent, ' ');
      used = 0;
    } else if (used > 0) {
      out += ' ';
      ++used;
    }
    out += word;
    used += length;
    at = end + 1;
  }
  return out;
}

std::int64_t count_of(const Examination& examination, Level level) {
  return std::count_if(examination.findings.begin(), examination.findings.end(),
                       [&](const Finding& finding) { return finding.level == level; });
}

std::int64_t not_made(const Examination& examination) {
  return std::count_if(examination.findings.begin(), examination.findings.end(),
                       [](const Finding& finding) { return !finding.is_made; });
}

// "2 errors", with a separator in front unless `text` is empty; nothing if there are
// none.
void add_count(std::string& text, std::int64_t count, const std::string& word,
               const char* separator) {
  if (count == 0) return;
  if (!text.empty()) text += separator;
  text += std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

// "no problems found", "1 error, 2 warnings; 1 check could not be run"
std::string summary_of(const Examination& examination) {
  std::string text;
  add_count(text, count_of(examination, Level::error), "error", ", ");
  add_count(text, count_of(examination, Level::warning), "warning", ", ");
  if (text.empty()) text = "no problems found";
  const auto unknown = not_made(examination);
  add_count(text, unknown, "check", "; ");
  return text + (unknown > 0 ? " could not be run" : "");
}

}  // namespace

const char* name_of(Level level) {
  switch (level) {
    case Level::ok: return "ok";
    case Level::info: return "info";
    case Level::warning: return "warning";
    case Level::error: break;
  }
  return "error";
}

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
  const auto worst = std::max(worst_of(examination.findings), Level::info);
  const auto& trip = examination.round_trip;
  return Json{
      {"store", store},
      {"level", worst == Level::info ? "ok" : name_of(worst)},
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
    const auto level_size = std::string_view(name_of(finding.level)).size();
    text += colored(finding.level, format.color);
    text.append(level_columns - level_size, ' ');
    text += finding.check;
    text.append(check_columns - finding.check.size(), ' ');
    text += wrapped(finding.message, indent, format.columns) + "\n";
    if (finding.advice.empty()) continue;
    text.append(indent, ' ');
    text += "-> " + wrapped(finding.advice, indent + 3, format.columns) + "\n";
  }
  const auto worst = worst_of(examination.findings);
  if (format.only_trouble && worst < Level::warning) return text;
  return text + colored(summary_of(examination), paint_of(worst), format.color) + " in " +
         printable(store) + "\n";
}

}  // namespace dlock
