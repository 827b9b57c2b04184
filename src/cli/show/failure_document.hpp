// The JSON document that --json prints for a failure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/args/app.hpp"

namespace dlock {

// The kind of failure that an exit code stands for: "unavailable" for 69. Nothing if the
// code is not a failure of dlock's own.
std::optional<std::string_view> failure_kind(int exit_code);

// One line: {"error":{"code":69,"kind":"unavailable","message":"cannot reach db:6379"}}.
// `exit_code` must stand for a failure.
std::string failure_document(int exit_code, const std::string& message);

// Whether standard output carries dlock's JSON, and not the output of a command.
bool has_json_output(const Invocation& invocation);

// The same for a command line that may be invalid, as far as it can be determined:
// whether --json was given for a verb that prints JSON.
bool asks_for_json(const std::vector<std::string>& args);

}  // namespace dlock
