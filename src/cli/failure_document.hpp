// What --json prints of a failure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/app.hpp"

namespace dlock {

// What kind of failure an exit code is: "unavailable" for 69. Nothing for one that is
// none, or the command's own.
std::optional<std::string_view> failure_kind(int exit_code);

// {"error":{"code":69,"kind":"unavailable","message":"cannot reach db:6379"}}, as a line.
// For an exit code that is a failure.
std::string failure_document(int exit_code, const std::string& message);

// Whether standard output is for JSON of dlock's own, and not for a command's output.
bool has_json_output(const Invocation& invocation);

// The same of a command line that may be wrong, as far as it can be told, with --json.
bool asks_for_json(const std::vector<std::string>& args);

}  // namespace dlock
