#include "cli/args/config_file.hpp"

#include <algorithm>
#include <memory>
#include <sstream>
#include <toml.hpp>
#include <type_traits>
#include <vector>

#include "cli/args/values.hpp"
#include "util/small_file.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

constexpr std::size_t longest_file = 1u << 20;

// toml11 has other names for lines, and for where an error is, since version 4 (Debian
// 13).
template <typename Location>
std::size_t number_of(const Location& place) {
  if constexpr (requires { place.line(); }) {
    return place.line();
  } else {
    return place.first_line_number();
  }
}

template <typename Error>
concept HasLocation = requires(const Error& error) {
  error.location();
};

using SyntaxError =
    std::conditional_t<HasLocation<toml::exception>, toml::exception, toml::syntax_error>;

template <typename Error>
std::size_t line_of_error(const Error& error) {
  if constexpr (HasLocation<Error>) {
    return number_of(error.location());
  } else {
    return number_of(error.errors().front().locations().front().first);
  }
}

Failure broken(const std::string& path, const std::string& why) {
  return Failure::misconfigured(printable(path) + ": " + why);
}

// Whoever can write the file decides on a command's lock, time limit and store, and on
// hooks, which are commands.
std::string contents_of(const std::string& path) {
  if (path == "/dev/null") return "";
  FileKind kind{printable(path), longest_file, Use::settings};
  kind.may_be_pipe = false;
  kind.failure = failure_of_named;
  return small_file(path, kind).text;
}

// The parser's message has several lines. The first one has the reason, or else the one
// that points at the place.
std::string reason_of(const std::string& message) {
  constexpr std::string_view prefix = "[error] ";
  constexpr std::string_view pointer = "^--- ";
  const auto line_from = [&](std::size_t begin) {
    return message.substr(begin, message.find('\n', begin) - begin);
  };
  auto text = line_from(message.starts_with(prefix) ? prefix.size() : 0);
  if (text.starts_with("toml::")) text.erase(0, std::min(text.find(": "), text.size()));
  if (text.starts_with(": ")) text.erase(0, 2);
  const auto place = message.find(pointer);
  if (text.empty() && place != message.npos) text = line_from(place + pointer.size());
  return printable(text, 200);
}

// The parsed file, kept for as long as a line number may be requested.
using Toml = std::shared_ptr<const toml::value>;

Line line_of(const Toml& root, const toml::value& value) {
  return [root, &value] { return number_of(value.location()); };
}

ConfigValue value_from(const Toml& root, const toml::value& value,
                       const std::string& path, const std::string& key) {
  const auto line = line_of(root, value);
  if (value.is_string()) {
    const std::string text = toml::get<std::string>(value);
    return {text, line};
  }
  if (value.is_boolean()) return {value.as_boolean() ? "true" : "false", line};
  if (value.is_integer()) return {std::to_string(value.as_integer()), line};
  if (value.is_floating()) {
    std::ostringstream text;
    text.precision(15);
    text << value.as_floating();
    return {text.str(), line};
  }
  throw broken_line(path, line, key + ": expected a string, a number or a boolean");
}

// The locks of --also, as the value of the option.
ConfigValue also_from(const Toml& root, const toml::value& list, const std::string& path,
                      const std::string& key) {
  ConfigValue locks{"", line_of(root, list)};
  for (const auto& lock : list.as_array()) {
    if (!lock.is_string() || toml::get<std::string>(lock).empty()) {
      throw broken_line(path, line_of(root, lock), key + ": expected names of locks");
    }
    if (&lock != &list.as_array().front()) locks.text += also_separator;
    locks.text += toml::get<std::string>(lock);
  }
  return locks;
}

ConfigTable table_from(const Toml& root, const toml::value& table,
                       const std::string& path, const std::string& shown) {
  ConfigTable config{line_of(root, table), {}};
  for (const auto& [key, value] : table.as_table()) {
    const auto named = shown + "." + printable(key);
    config.keys[key] = key == "also" && value.is_array()
                           ? also_from(root, value, path, named)
                           : value_from(root, value, path, named);
  }
  return config;
}

// The tables of locks within [lock].
void add_locks(const Toml& root, const toml::value& tables, Config& config) {
  for (const auto& [name, table] : tables.as_table()) {
    if (!table.is_table()) {
      throw broken_line(config.path, line_of(root, table),
                        "'" + printable(name, 60) +
                            "' is not in a lock's table: the table of the lock NAME is "
                            "[lock.\"NAME\"]");
    }
    config.locks[name] = table_from(root, table, config.path, shown_lock(name));
  }
}

// [address-map], whose keys are the addresses that servers announce, as the value of the
// option.
ConfigValue address_map_from(const Toml& root, const toml::value& table,
                             const std::string& path) {
  ConfigValue map{"", line_of(root, table)};
  std::map<std::string, std::string> entries;  // in one order, whatever the parser's is
  for (const auto& [from, value] : table.as_table()) {
    if (!value.is_string()) {
      throw broken_line(path, line_of(root, value),
                        "address-map." + printable(from, 60) + ": expected a string");
    }
    entries[from] = toml::get<std::string>(value);
  }
  for (const auto& [from, to] : entries) {
    map.text += (map.text.empty() ? "" : ",") + from + "=" + to;
  }
  return map;
}

// The position after the string that begins at `begin`.
std::size_t end_of_string(std::string_view toml, std::size_t begin) {
  const char quote = toml[begin];
  const auto rest = toml.substr(begin);
  const auto quotes = std::min(rest.find_first_not_of(quote), rest.size());
  const bool has_lines = quotes >= 3;
  if (quotes == 2) return begin + quotes;  // an empty string
  const auto closing = rest.substr(0, has_lines ? 3 : 1);
  for (std::size_t at = closing.size(); at < rest.size(); ++at) {
    if (quote == '"' && rest[at] == '\\') {
      ++at;
    } else if (rest.substr(at).starts_with(closing)) {
      at += closing.size();
      // Quotes before the closing ones belong to the string.
      while (has_lines && at < rest.size() && rest[at] == quote) ++at;
      return begin + at;
    } else if (!has_lines && rest[at] == '\n') {
      return begin + at;
    }
  }
  return toml.size();
}

Toml parsed_toml(const std::string& text, const std::string& path) {
  if (const auto line = line_nested_too_deeply(text)) {
    throw broken_line(
        path, [line] { return *line; },
        "nested more than " + std::to_string(deepest_toml) + " levels deep");
  }
  std::istringstream stream(text);
  try {
    return std::make_shared<const toml::value>(toml::parse(stream, path));
  } catch (const SyntaxError& error) {
    const auto line = line_of_error(error);
    throw broken_line(
        path, [line] { return line; }, "not valid TOML: " + reason_of(error.what()));
  } catch (const std::exception& error) {
    throw broken(path, "not valid TOML: " + reason_of(error.what()));
  }
}

}  // namespace

std::optional<std::size_t> line_nested_too_deeply(std::string_view toml) {
  std::vector<std::size_t> around = {0};  // the depths of what is open here
  std::size_t depth = 0;                  // of the current key or value
  for (std::size_t at = 0; at < toml.size();) {
    const char c = toml[at];
    if (c == '#') {
      at = std::min(toml.find('\n', at), toml.size());
      continue;
    }
    if (c == '"' || c == '\'') {
      at = end_of_string(toml, at);
      continue;
    }
    switch (c) {
      case '.': ++depth; break;
      case '[':
      case '{': around.push_back(++depth); break;
      case ']':
      case '}':
        if (around.size() > 1) around.pop_back();
        depth = around.back();
        break;
      case ',':
      case '\n': depth = around.back(); break;
      default: break;
    }
    if (depth > deepest_toml) {
      const auto before = toml.substr(0, at);
      return 1 + static_cast<std::size_t>(std::ranges::count(before, '\n'));
    }
    ++at;
  }
  return std::nullopt;
}

Config config_from(const std::string& path) {
  const auto text = contents_of(path);
  // The behavior of toml11 for other bytes in strings is undefined.
  if (!is_utf8(text)) throw broken(path, "not valid UTF-8");
  const auto root = parsed_toml(text, path);
  Config config;
  config.path = path;
  for (const auto& [key, value] : root->as_table()) {
    if (!value.is_table()) {
      config.top.keys[key] = value_from(root, value, path, printable(key));
    } else if (key == "address-map") {
      if (value.as_table().empty()) continue;
      config.top.keys[key] = address_map_from(root, value, path);
    } else if (key == "lock") {
      add_locks(root, value, config);
    } else {
      config.verbs[key] = table_from(root, value, path, printable(key));
    }
  }
  return config;
}

Failure broken_line(const std::string& path, const Line& line, const std::string& why) {
  return Failure::misconfigured(printable(path) + ":" + std::to_string(line()) + ": " +
                                why);
}

std::string shown_lock(const std::string& name) {
  return "lock.\"" + printable_name(name) + "\"";
}

}  // namespace dlock
