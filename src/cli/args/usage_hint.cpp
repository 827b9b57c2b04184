#include "cli/args/usage_hint.hpp"

#include <algorithm>

#include "cli/args/option_table.hpp"
#include "store/store_url.hpp"
#include "store/url_advice.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

std::string in_quotes(std::string_view word) { return "'" + shown_word(word) + "'"; }

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Options of flock(1), and what to use instead. Letters first, then long names.
struct Habit {
  std::string_view names[6];
  std::string_view instead;
};

constexpr Habit habits[] = {
    {{"-n", "--nonblock", "--nonblocking", "--nb", "--no-wait", "--nowait"},
     " is not needed: dlock run NAME -- COMMAND does not wait unless --wait is given"},
    {{"-c", "--command"}, ": dlock uses no shell; use dlock run NAME -- sh -c 'LINE'"},
    {{"-x", "-e", "--exclusive", "--ex"},
     " is not needed: dlock run NAME -- COMMAND is exclusive unless --shared is given"},
    {{"-u", "--unlock"},
     ": dlock run releases the lock when the command ends, dlock release does so by "
     "hand"},
};

// In combined letters such as -xn, ignores the one that is the default here.
std::string habit_of(std::string_view word) {
  std::string letters(word);
  if (!letters.starts_with("--") && letters.size() > 2) {
    letters.erase(std::remove_if(letters.begin() + 1, letters.end() - 1,
                                 [](char letter) { return letter == 'x'; }),
                  letters.end() - 1);
  }
  for (const auto& habit : habits) {
    if (std::ranges::count(habit.names, letters) == 0) continue;
    return in_quotes(word) + std::string(habit.instead);
  }
  return "";
}

// The first verb that has this option as its own; null if none has.
const VerbSpec* verb_with(std::string_view name) {
  for (const auto& verb : all_verbs()) {
    const auto* option = option_named(verb.verb, name);
    if (option != nullptr && common_option(option->name) != option) return &verb;
  }
  return nullptr;
}

std::string_view without_dashes(std::string_view word) {
  if (word.starts_with("--")) return word.substr(2);
  // The first of combined letters.
  return word.substr(1, 1);
}

// Only for long options: all letters are equally near to each other.
std::string option_suggestion(std::string_view mistyped, const VerbSpec* verb) {
  if (!mistyped.starts_with("--")) return "";
  std::vector<std::string_view> names;
  if (verb != nullptr) {
    for (const auto& option : own_specs(verb->verb)) names.push_back(option.name);
  }
  for (const auto& option : common_specs()) names.push_back(option.name);
  names.insert(names.end(), {"help", "version"});
  return did_you_mean(mistyped.substr(2), names, "--");
}

// A lock name derived from a path: "job" for "/var/lock/job.lock".
std::string name_from_path(std::string_view path) {
  auto name = path.substr(path.rfind('/') + 1);
  for (const std::string_view end : {".lock", ".lck", ".pid"}) {
    if (name.size() > end.size() && name.ends_with(end)) name.remove_suffix(end.size());
  }
  return name.empty() ? "NAME" : printable(name, 60);
}

// Variables that dlock sets for commands, or that its users set; without DLOCK_.
constexpr std::string_view set_by_dlock[] = {"NAME", "FENCE", "FENCES",
                                             "SLOT", "SLOTS", "HELD"};

// "store-timeout" for "STORE_TIMEOUT".
std::string option_name(std::string_view variable) {
  return replaced(lower_case(variable), "_", "-");
}

// The variables of options, without DLOCK_.
std::vector<std::string_view> settable() {
  std::vector<std::string_view> names{"PASSWORD", "SENTINEL_PASSWORD", "HOST"};
  const auto add = [&](const OptionSpec& option) {
    if (!option.environment.empty()) names.push_back(option.environment.substr(6));
  };
  for (const auto& option : common_specs()) add(option);
  for (const auto& option : own_specs()) add(option);
  return names;
}

constexpr std::size_t most_edits = 2;

std::optional<std::string_view> only_one_with_prefix(
    std::string_view prefix, std::span<const std::string_view> words) {
  const auto begins = [&](std::string_view word) { return word.starts_with(prefix); };
  const auto first = std::ranges::find_if(words, begins);
  if (prefix.empty() || first == words.end()) return std::nullopt;
  if (std::find_if(first + 1, words.end(), begins) != words.end()) return std::nullopt;
  return *first;
}

std::size_t common_beginning(std::string_view one, std::string_view other) {
  const auto ends = std::mismatch(one.begin(), one.end(), other.begin(), other.end());
  return static_cast<std::size_t>(ends.first - one.begin());
}

}  // namespace

std::string unknown_verb(const std::string& word) {
  const auto start = "unknown verb " + in_quotes(word);
  if (word == "version") return start + "; use dlock --version";
  if (word.find("://") != std::string::npos) {
    return start + "; the store is named by --store URL";
  }
  if (word.find('/') != std::string::npos) {
    return start + "; locks have names, not paths: dlock run " + name_from_path(word) +
           " -- COMMAND";
  }
  if (is_digits(word)) {
    return start + "; a script takes a lock by name: dlock acquire NAME --for-pid $$";
  }
  const auto names = verb_names();
  const auto meant = nearest(word, names);
  // Most five-letter words are two edits away from "help".
  const bool is_far = meant == "help" && edits_between(word, "help") > 1 &&
                      !std::string_view("help").starts_with(word);
  if (meant && !is_far) return start + did_you_mean(word, names);
  return start + "; to run a command: dlock run " + printable(word, 60) + " -- COMMAND";
}

std::string unknown_option(const std::string& word, const VerbSpec* verb) {
  // Without the text after the sign: it may be a password.
  const auto name = std::string_view(word).substr(0, word.find('='));
  const auto bare = without_dashes(name);
  if (name == "--password" || name == "--sentinel-password") {
    const bool is_sentinels = name != "--password";
    return in_quotes(name) +
           " is not an option, because other users could read it: use " +
           std::string(name) + "-file or DLOCK_" + (is_sentinels ? "SENTINEL_" : "") +
           "PASSWORD";
  }
  const auto* spec =
      verb != nullptr ? option_named(verb->verb, bare) : common_option(bare);
  if (name.starts_with("--") &&
      ((spec != nullptr && spec->is_flag()) || bare == "help" || bare == "version")) {
    return in_quotes(name) + ": the option takes no value";
  }
  if (name == "-V") return "'-V' is not an option: use --version";
  const bool is_for_run =
      verb == nullptr || verb->verb == Verb::run || verb->verb == Verb::acquire;
  auto habit = is_for_run ? habit_of(name) : "";
  if (!habit.empty()) return habit;
  if (verb == nullptr) {
    if (const auto* other = verb_with(bare); other != nullptr) {
      const std::string owner(other->name());
      return in_quotes(name) + " is an option of " + owner + ": dlock " + owner + " " +
             printable(name, 60) + " ...";
    }
  }
  const auto suggestion = option_suggestion(name, verb);
  if (!suggestion.empty()) return "unknown option " + in_quotes(name) + suggestion;
  return "unknown option " + in_quotes(name) + " (see dlock " +
         (verb == nullptr ? "" : std::string(verb->name()) + " ") + "--help)";
}

std::string split_value(const std::vector<std::string>& args, std::size_t place,
                        const VerbSpec& verb) {
  if (place == 0 || place >= args.size()) return "";
  const auto unit = unit_meant_by(args[place]);
  if (unit.empty()) return "";
  // The number is a separate word ("--wait 5") or part of the option ("--wait=5",
  // "-w5").
  std::string_view option = args[place - 1];
  std::string_view number = option;
  if (is_digits(number)) {
    if (place < 2) return "";
    option = args[place - 2];
  } else {
    number.remove_prefix(
        std::min(number.size(), number.find_last_not_of("0123456789") + 1));
    option.remove_suffix(number.size());
    if (option.ends_with('=')) option.remove_suffix(1);
  }
  if (!is_digits(number) || option.size() < 2 || option.front() != '-') return "";
  const bool is_long = option.starts_with("--");
  const auto* spec = option_named(
      verb.verb, is_long ? option.substr(2) : option.substr(option.size() - 1));
  if (spec == nullptr) return "";
  const bool is_size = unit.ends_with('B');
  const bool takes_it =
      is_size ? spec->value == "SIZE" : spec->value == "D" || spec->value == "WINDOW";
  if (!takes_it) return "";
  return std::string("a ") + (is_size ? "size" : "duration") + " is one word: --" +
         std::string(spec->name) + " " + std::string(number) + std::string(unit);
}

std::string unknown_variable(std::string_view name) {
  const auto names = settable();
  if (std::ranges::count(set_by_dlock, name) + std::ranges::count(names, name) > 0) {
    return "";
  }
  const auto start = "DLOCK_" + printable(name, 60) + " is not a variable of dlock";
  const auto option = option_name(name);
  const bool is_option = common_option(option) != nullptr || verb_with(option) != nullptr;
  if (is_option && option.size() > 1) {
    return start + "; use --" + option +
           " or the configuration file (only the options of the store have variables: "
           "man dlock)";
  }
  const auto meant = did_you_mean(name, names, "DLOCK_");
  return meant.empty() ? "" : start + meant;
}

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
