#include "util/nearest.hpp"

#include <algorithm>
#include <vector>

namespace dlock {
namespace {

constexpr std::size_t most_edits = 2;

std::optional<std::string_view> only_one_with_prefix(
    std::string_view prefix, std::span<const std::string_view> words) {
  const auto begins = [&](std::string_view word) { return word.starts_with(prefix); };
  const auto first = std::find_if(words.begin(), words.end(), begins);
  if (prefix.empty() || first == words.end()) return std::nullopt;
  if (std::find_if(first + 1, words.end(), begins) != words.end()) return std::nullopt;
  return *first;
}

std::size_t common_beginning(std::string_view one, std::string_view other) {
  const auto ends = std::mismatch(one.begin(), one.end(), other.begin(), other.end());
  return static_cast<std::size_t>(ends.first - one.begin());
}

}  // namespace

std::size_t edits_between(std::string_view one, std::string_view other) {
  // The last three rows of the table of edit distances between prefixes.
  std::vector<std::size_t> before_last;
  std::vector<std::size_t> last(other.size() + 1);
  for (std::size_t j = 0; j <= other.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= one.size(); ++i) {
    std::vector<std::size_t> row{i};
    for (std::size_t j = 1; j <= other.size(); ++j) {
      const bool same = one[i - 1] == other[j - 1];
      auto edits = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1]) {
        edits = std::min(edits, before_last[j - 2] + 1);
      }
      row.push_back(edits);
    }
    before_last = std::move(last);
    last = std::move(row);
  }
  return last.back();
}

std::optional<std::string_view> nearest(std::string_view mistyped,
                                        std::span<const std::string_view> words) {
  if (const auto only = only_one_with_prefix(mistyped, words)) return only;
  std::optional<std::string_view> found;
  auto fewest = most_edits;
  for (const auto word : words) {
    // Words of very different lengths need no table.
    if (std::max(word.size(), mistyped.size()) - std::min(word.size(), mistyped.size()) >
        most_edits) {
      continue;
    }
    const auto edits = edits_between(mistyped, word);
    if (edits > fewest || 2 * edits >= mistyped.size()) continue;
    if (edits == fewest && found &&
        common_beginning(mistyped, word) <= common_beginning(mistyped, *found)) {
      continue;
    }
    fewest = edits;
    found = word;
  }
  return found;
}

std::string did_you_mean(std::string_view mistyped,
                         std::span<const std::string_view> words,
                         std::string_view dashes) {
  const auto meant = nearest(mistyped, words);
  if (!meant) return "";
  return ": did you mean '" + std::string(dashes) + std::string(*meant) + "'?";
}

}  // namespace dlock
