#include "cli/show/failure_document.hpp"

#include <algorithm>
#include <iterator>

#include "cli/args/exit_status.hpp"
#include "cli/args/verb_spec.hpp"
#include "util/json.hpp"

namespace dlock {
namespace {

struct FailureKind {
  ExitStatus status;
  std::string_view name;
};

constexpr FailureKind failure_kinds[] = {
    {ExitStatus::usage, "usage"},
    {ExitStatus::unavailable, "unavailable"},
    {ExitStatus::bug, "bug"},
    {ExitStatus::not_obtained, "busy"},
    {ExitStatus::lost, "lost"},
    {ExitStatus::permission, "permission"},
    {ExitStatus::misconfigured, "configuration"},
    {ExitStatus::no_resources, "resources"},
};

// Verbs whose standard output is the command's. (`limit` prints its own answer first.)
bool is_for_command(Verb verb) { return verb == Verb::run || verb == Verb::cache; }

}  // namespace

std::optional<std::string_view> failure_kind(int exit_code) {
  const auto* found = std::find_if(
      std::begin(failure_kinds), std::end(failure_kinds),
      [&](const FailureKind& kind) { return code_of(kind.status) == exit_code; });
  return found == std::end(failure_kinds) ? std::nullopt : std::optional(found->name);
}

std::string failure_document(int exit_code, const std::string& message) {
  return to_line(Json{{"error",
                       {{"code", exit_code},
                        {"kind", failure_kind(exit_code).value_or("")},
                        {"message", message}}}}) +
         "\n";
}

bool has_json_output(const Invocation& invocation) {
  // With --export the output is for `eval`; `json` in the configuration file is ignored
  // then.
  if (flag(invocation.settings, "export") &&
      gives_way(invocation.settings, "json", "export")) {
    return false;
  }
  return !is_for_command(invocation.verb) ||
         (invocation.verb == Verb::cache && invocation.command.empty());
}

bool asks_for_json(const std::vector<std::string>& args) {
  const VerbSpec* verb = nullptr;
  bool asks = false;
  for (const auto& word : args) {
    if (word == "--") break;
    if (verb == nullptr) verb = verb_named(word);
    if (word == "--json") asks = true;
  }
  return asks && (verb == nullptr || !is_for_command(verb->verb));
}

}  // namespace dlock
