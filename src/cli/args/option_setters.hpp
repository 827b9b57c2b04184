// How the text of a setting becomes a member of the options of a verb: what the rows of
// the table of options (option_table.cpp) name.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/args/options.hpp"
#include "cli/args/usage_hint.hpp"
#include "net/password_command.hpp"
#include "util/text.hpp"

// A separate namespace, because the verbs have names that functions have elsewhere.
namespace dlock::option_rows {

// A word that an option accepts, and its meaning.
template <typename Meaning>
struct Choice {
  std::string_view word;
  Meaning meaning;
};

template <const auto& choices>
auto choice(const std::string& value) {
  std::string listed;
  std::vector<std::string_view> words;
  for (const auto& [word, meaning] : choices) {
    if (word == value) return meaning;
    if (!listed.empty()) listed += &word == &std::rbegin(choices)->word ? " or " : ", ";
    listed += word;
    words.push_back(word);
  }
  throw UsageError("expected " + listed + ", not '" + printable(value, 60) + "'" +
                   did_you_mean(value, words));
}

template <unsigned least, unsigned most, typename Number = unsigned>
Number number(const std::string& value) {
  return static_cast<Number>(parsed_number(value, least, most));
}

// Zero is the same as none.
template <milliseconds (*parse)(std::string_view)>
std::optional<milliseconds> some(const std::string& value) {
  const auto span = parse(value);
  return span.count() > 0 ? std::optional(span) : std::nullopt;
}

inline std::function<std::string()> key_password(const std::string& value) {
  return [file = parsed_file_name(value)] { return password_in(file); };
}

inline Replicas replicas(const std::string& value) {
  constexpr unsigned most = 15;  // far more than any setup has
  if (value == "all") return {.all = true};
  try {
    return {.count = parsed_number(value, 0, most)};
  } catch (const UsageError& error) {
    throw UsageError(std::string(error.what()) + ", or all");
  }
}

// What `parse` makes of it, whose Failure is a mistake of usage here.
template <auto parse>
auto usage(const std::string& value) {
  try {
    return parse(value);
  } catch (const Failure& failure) {
    throw UsageError(failure.what());
  }
}

// What the user calls it, for messages.
template <std::size_t size>
struct What {
  constexpr What(const char (&name)[size]) { std::copy_n(name, size, text); }
  char text[size] = {};
};
template <What what>
std::string text(const std::string& value) {
  return parsed_text(value, what.text);
}

// A word without a dot or slash is more likely a mistake than the name of a file.
inline OutputChoice output_choice(const std::string& value) {
  constexpr std::string_view words[] = {"pass", "on-failure"};
  if (value == words[0]) return {};
  if (value == words[1]) return {.on_failure = true, .file = ""};
  if (value.find_first_of("./") != std::string::npos)
    return {.on_failure = false, .file = parsed_file_name(value)};
  throw UsageError(
      "expected pass, on-failure or a file with a dot or a slash in its name, "
      "such as ./out, not '" +
      printable(value, 60) + "'" + did_you_mean(value, words));
}

inline std::size_t kept_size(const std::string& value) {
  const auto size = parsed_size(value);
  if (size == 0) throw UsageError("cannot be zero");
  return size;
}

inline std::string verbatim(const std::string& value) { return value; }

// A member of a member.
template <typename Value>
Value& reached(Value& value) {
  return value;
}
template <typename Outer, typename Inner, typename... More>
auto& reached(Outer& outer, Inner Outer::*inner, More... more) {
  return reached(outer.*inner, more...);
}

// The options that have the member.
template <typename Options, typename Value>
Options& owner_of(Value Options::*);

// Stores what `parse` makes of the value in a member, or in a member of a member.
template <auto parse, auto member, auto... inner>
void into(VerbOptions& options, const Setting& setting) {
  auto& own = static_cast<decltype(owner_of(member))>(options);
  reached(own.*member, inner...) = parse(setting.value);
}
template <auto member, auto... inner>
constexpr auto flag = into<parsed_flag, member, inner...>;

inline void take_slots(VerbOptions& options, const Setting& setting) {
  const auto& value = setting.value;
  // The user seems to have used flock's -n (do not wait) in front of the name.
  if (setting.source == Setting::Source::command_line && !value.empty() &&
      value.find_first_of("0123456789") == std::string::npos) {
    throw UsageError("'" + printable(value, 60) +
                     "' is not a number (-n means --slots; not waiting is the default)");
  }
  auto& own = static_cast<ClaimOptions&>(options);
  own.slots = parsed_number(value, 1, most_slots);
  own.has_slots = !setting.origin.empty();  // else it is the default
}

// An empty list in a file takes the place of one in a table of lower precedence.
inline void take_also(VerbOptions& options, const Setting& setting) {
  const bool is_none = setting.value.empty() && is_file(setting.source);
  static_cast<RunOptions&>(options).also =
      is_none ? std::vector<AlsoLock>() : parsed_also(setting.value);
}

// A program of the working directory could be anyone's when a file names it.
inline void take_password_command(VerbOptions& options, const Setting& setting) {
  auto words = usage<net::words_of_command>(setting.value);
  const auto& program = words.front();
  const bool is_relative = program.front() != '/' && program.find('/') != program.npos;
  if (is_relative && is_file(setting.source)) {
    throw UsageError("name the program by its absolute path, or one in PATH");
  }
  static_cast<CommonOptions&>(options).login.password_command = std::move(words);
}

// Read from the settings, where it is used.
inline void take_nothing(VerbOptions&, const Setting&) {}

}  // namespace dlock::option_rows
