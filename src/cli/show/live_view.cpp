#include "cli/show/live_view.hpp"

#include <algorithm>

#include "cli/show/lock_view.hpp"
#include "util/text.hpp"
#include "util/width.hpp"

namespace dlock {
namespace {

// Events in quick succession lead to one query.
constexpr milliseconds soonest{100};

// Some changes cause no event: a foreign holder appears, a waiter's place lapses.
constexpr milliseconds latest{2'000};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

std::vector<LockInfo> aged(std::vector<LockInfo> locks, milliseconds by) {
  for (auto& lock : locks) {
    for (auto& holder : lock.holders) holder.held += by;
  }
  return locks;
}

std::string fingerprint_of(const std::vector<LockInfo>& locks) {
  std::string gist;
  const auto add = [&](const std::string& text) { gist += text + "\n"; };
  for (const auto& lock : locks) {
    add(lock.lock.name);
    add(std::to_string(lock.slots) + " " + std::to_string(lock.free) + " " +
        std::to_string(lock.waiters.size()) +
        (lock.mode == Mode::shared ? " shared" : ""));
    for (const auto& holder : lock.holders) {
      add(holder.foreign ? "foreign" : std::to_string(holder.fence.number));
    }
    if (!lock.last_run) continue;
    add(rfc3339(lock.last_run->started) + " " + outcome_of(*lock.last_run));
  }
  return gist;
}

Clock::time_point next_look(Clock::time_point last, bool has_changed) {
  return later(last, has_changed ? soonest : latest);
}

std::vector<std::string> lines_within(const std::string& text, const std::string& last,
                                      const Window& window) {
  auto lines = lines_of(text);
  const std::size_t below = last.empty() ? 0 : 1;
  const auto room = window.rows - std::min(window.rows, below);
  if (lines.size() > room) {
    const auto kept = room - std::min<std::size_t>(room, 1);
    const auto left_out = lines.size() - kept;
    lines.resize(kept);
    if (room > 0) lines.push_back("and " + std::to_string(left_out) + " more");
  }
  if (!last.empty()) lines.push_back(last);
  for (auto& line : lines) line = cut_to(line, window.columns);
  return lines;
}

std::string drawn(const std::vector<std::string>& lines) {
  std::string text = "\x1b[H";
  for (const auto& line : lines) {
    if (&line != &lines.front()) text += "\r\n";
    text += line + "\x1b[K";
  }
  return text + "\x1b[J";
}

std::string trouble_text(milliseconds age, const std::string& why) {
  return "(as of " + for_people(age) + " ago: " + why + ")";
}

}  // namespace dlock
