#include "cli/show/history_view.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "cli/show/lock_view.hpp"
#include "cli/show/screen.hpp"
#include "cli/terminal/speaker.hpp"
#include "lock/history.hpp"
#include "util/text.hpp"
#include "util/utf8.hpp"

namespace dlock {
namespace {

constexpr std::size_t bar_columns = 10;

// Whether the locale uses UTF-8, determined as setlocale(3) does.
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

// In half columns where the locale has such characters; every run has at least one.
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

milliseconds longest_of(const std::vector<RunOfLock>& runs) {
  milliseconds longest{0};
  for (const auto& [lock, run] : runs) {
    longest = std::max(longest, run.duration.value_or(milliseconds(0)));
  }
  return longest;
}

Paint paint_of(const RunInfo& run) {
  if (is_running(run)) return Paint::yellow;
  if (is_by_hand(run)) return Paint::plain;
  return is_failure(run) ? Paint::red : Paint::green;
}

std::string seconds_of(WallTime moment) {
  constexpr auto fraction = std::string_view(".250Z").size();
  const auto text = rfc3339(moment);
  return text.substr(0, text.size() - fraction) + "Z";
}

enum class Detail { bars, moments, least };

std::string table_of(const std::vector<RunOfLock>& runs, WallTime now,
                     const HistoryFormat& format, Detail detail, Names names) {
  Table table(
      {"?STARTED", "?LOCK", "AGO", "TOOK", "?", "HOST", "?USER", "?PERIOD", "OUTCOME"});
  const auto longest = longest_of(runs);
  const bool has_moments = detail != Detail::least;
  for (const auto& [lock, run] : runs) {
    const auto ago = std::max(now - run.started, WallTime(0));
    const bool has_bar = detail == Detail::bars && run.duration;
    table.add({has_moments ? seconds_of(run.started) : "",
               names == Names::shown ? printable_name(lock) : "", for_people(ago),
               run.duration ? for_people(*run.duration) : "-",
               has_bar ? bar(*run.duration, longest, format.blocks) : "",
               printable(run.host, 64), has_moments ? printable(run.user, 64) : "",
               has_moments ? printable(period_of(run).name, 64) : "",
               colored(outcome_of(run), paint_of(run), format.color)});
  }
  return table.text("", format.color, format.columns);
}

// The width of the widest line.
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

HistoryFormat format_of_output(bool color) {
  HistoryFormat format;
  format.color = color;
  format.columns = columns_of_output();
  format.blocks = is_utf8_locale();
  return format;
}

Json json_of(const RunOfLock& run, Names names) {
  auto json = json_of(run.run);
  if (names == Names::left_out) return json;
  Json named{{"name", run.lock}};
  named.update(json);
  return named;
}

std::string history_text(const std::vector<RunOfLock>& runs, WallTime now,
                         const HistoryFormat& format, Names names) {
  if (runs.empty()) return "";
  const auto text_with = [&](Detail detail, const HistoryFormat& on) {
    return table_of(runs, now, on, detail, names);
  };
  if (format.columns == 0) return text_with(Detail::moments, format);
  auto uncut = format;
  uncut.columns = 0;
  for (const auto detail : {Detail::bars, Detail::moments}) {
    auto text = text_with(detail, uncut);
    if (columns_of_lines(text) <= format.columns) return text;
  }
  return text_with(Detail::least, format);
}

namespace {

// "; now held by root@web1 (pid 7, x) for 3h; 1 waits". A first run that takes hours has
// not failed yet.
std::string progress_of(const LockInfo& lock) {
  std::string text;
  if (!lock.holders.empty()) text = "; now held by " + described(lock.holders.front());
  const auto waiters = lock.waiters.size();
  if (waiters == 0) return text;
  return text + "; " + std::to_string(waiters) + (waiters == 1 ? " waits" : " wait");
}

bool is_end_known(const std::optional<RunInfo>& run) { return run && run->ended; }

}  // namespace

SuccessWithin success_within(LockInfo lock, milliseconds span) {
  const auto& last = lock.last_success;
  const bool is_within = is_end_known(last) && is_recent(*last->ended, span, lock.now);
  return {span, is_within, std::move(lock)};
}

Json json_of(const SuccessWithin& answer, const std::string& store) {
  const auto lock = json_of(answer.lock);
  return Json{
      {"name", lock["name"]},
      {"store", store},
      {"succeeded", answer.is_within},
      {"last_success", json_or_null(answer.lock.last_success)},
      {"holders", lock["holders"]},
      {"waiters", lock["waiters"]},
  };
}

std::string text_of(const SuccessWithin& answer, const std::string& store) {
  const auto& [span, is_within, lock] = answer;
  const auto name = printable_name(lock.lock.name);
  const auto where = " in " + printable(store);
  const auto& last = lock.last_success;
  if (!is_end_known(last)) return name + " never succeeded" + where + progress_of(lock);
  return name + (is_within ? " succeeded " : " last succeeded ") +
         for_people(std::max(lock.now - *last->ended, WallTime(0))) + " ago, at " +
         rfc3339(*last->ended) + " on " + printable(last->host, 64) +
         (is_within ? ""
                    : ", not within " + for_people(span) + where + progress_of(lock));
}

std::string plugin_line(const SuccessWithin& answer, const std::string& store) {
  const auto in_seconds = [](milliseconds span) {
    const auto part = std::to_string(1000 + span.count() % 1000).substr(1);
    return std::to_string(span.count() / 1000) + (part == "000" ? "" : "." + part);
  };
  const auto& last = answer.lock.last_success;
  const bool is_known = is_end_known(last);
  const auto age =
      is_known ? std::max(answer.lock.now - *last->ended, WallTime(0)) : WallTime(0);
  const auto age_ms = std::chrono::floor<milliseconds>(age);
  auto line =
      plugin_answer(answer.is_within ? "OK" : "CRITICAL", text_of(answer, store)) +
      " | age=" + (is_known ? in_seconds(age_ms) + "s" : "U") + ";;" +
      in_seconds(answer.span) + ";0";
  if (is_known && last->duration) {
    line += " duration=" + in_seconds(*last->duration) + "s;;;0";
  }
  return line;
}

}  // namespace dlock
