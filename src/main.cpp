// The main program: parses the command line, runs the verb and exits with its status.

#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/args/app.hpp"
#include "cli/args/verb_table.hpp"
#include "cli/run/verb_store.hpp"
#include "cli/terminal/speaker.hpp"
#include "store/store_url.hpp"
#include "supervise/process_title.hpp"
#include "supervise/signals.hpp"
#include "util/failure.hpp"
#include "util/fd.hpp"
#include "util/json.hpp"
#include "util/open_null.hpp"

namespace dlock {
namespace {

// Opens /dev/null for descriptors 0 to 2 if they are closed. Otherwise the next file to
// be opened would get such a number, and messages would be written into it.
// Close-on-exec, so that the command finds them closed as we did.
void open_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) open_null();
  }
}

// Overwrites passwords and tokens in the memory in which the kernel shows the environment
// of this process (/proc/PID/environ) to every process of the user, and so to the
// command. The variables themselves stay: they point to copies from then on. To be called
// first of all, because processes that are forked have a copy of that memory.
void hide_secrets(char** environment) {
  constexpr std::string_view store = "DLOCK_STORE=";
  // Read by other programs as well, so commands get it.
  constexpr std::string_view shared_secret = "PGPASSWORD=";
  for (char** variable = environment; *variable != nullptr; ++variable) {
    const std::string_view entry(*variable);
    const bool is_whole = is_secret(entry) || entry.starts_with(shared_secret);
    if (!is_whole && !entry.starts_with(store)) continue;
    auto* const shown = *variable;
    auto* const copy = ::strdup(shown);
    // Without memory, the run fails soon: what it would have lacked does not matter.
    *variable = copy == nullptr ? shown + entry.size() : copy;
    if (is_whole) std::fill(shown + entry.find('=') + 1, shown + entry.size(), 'x');
    if (!is_whole) hide_login(shown + store.size());
  }
}

// Printed even with --quiet, because the protection of the password and the locks is off.
void warn_if_insecure(const StoreUrl& store) {
  if (store.is_insecure()) {
    Speaker("", false, false)
        .urgent_warning(
            "warning: --tls-insecure: the store's certificate is not verified, "
            "so any server can pose as the store");
  }
}

void warn(const Invocation& invocation) {
  if (invocation.warnings.empty() && !invocation.common.store.is_insecure()) return;
  const SizeLimitIgnored ignored;  // standard error may be a file
  warn_if_insecure(invocation.common.store);
  for (const auto& warning : invocation.warnings) {
    Speaker("", invocation.common.quiet, false).warning(warning);
  }
}

Exit perform(const Invocation& invocation) {
  if (invocation.common.verbose) quote_servers();
  warn(invocation);
  std::optional<SizeLimitIgnored> ignored;
  // A verb that can start a command holds signals back itself.
  if (!invocation.verb->takes_command()) ignored.emplace();
  return invocation.verb->perform(invocation);
}

Exit refused(ExitStatus status, const std::string& message) {
  const SizeLimitIgnored ignored;
  Speaker("", false, false).error(message);
  return status;
}

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

// The kind of failure that an exit code stands for: "unavailable" for 69. Nothing if the
// code is not a failure of dlock's own.
std::optional<std::string_view> failure_kind(int exit_code) {
  const auto* found =
      std::ranges::find(failure_kinds, ExitStatus(exit_code), &FailureKind::status);
  return found == std::end(failure_kinds) ? std::nullopt : std::optional(found->name);
}

// The JSON document that --json prints for a failure, in one line:
// {"error":{"code":69,"kind":"unavailable","message":"cannot reach db:6379"}}.
std::string failure_document(int exit_code, const std::string& message) {
  return to_line(Json{{"error",
                       {{"code", exit_code},
                        {"kind", failure_kind(exit_code).value_or("")},
                        {"message", message}}}}) +
         "\n";
}

// Whether standard output carries dlock's JSON, and not the output of a command.
bool prints_json(const Invocation& invocation) {
  const auto& settings = invocation.settings;
  // With --export the output is for `eval`; `json` in the configuration file is ignored
  // then.
  if (!invocation.common.json ||
      (flag(settings, "export") &&
       settings.at("json").source > settings.at("export").source)) {
    return false;
  }
  return invocation.verb->command != CommandUse::for_output || invocation.command.empty();
}

// Whether a command line that may be invalid has this flag, and of which verb, as far as
// that can be determined.
struct FlagAsked {
  bool has_flag = false;
  const VerbSpec* verb = nullptr;
};
FlagAsked asked_for(std::string_view flag, const std::vector<std::string>& args) {
  FlagAsked asked;
  for (const auto& word : args) {
    if (word == "--") break;
    if (asked.verb == nullptr) asked.verb = verb_named(word);
    if (word == flag) asked.has_flag = true;
  }
  return asked;
}

bool asks_for_json(const std::vector<std::string>& args) {
  const auto [asks, verb] = asked_for("--json", args);
  return asks && (verb == nullptr || verb->command != CommandUse::for_output);
}

// Monitoring plugins answer in one line even if theirs is invalid.
bool asks_as_plugin(const std::vector<std::string>& args) {
  const auto [asks, verb] = asked_for("--nagios", args);
  return asks && verb != nullptr && verb->verb == Verb::history;
}

// The answer of a monitoring plugin if it could not find out what it was asked.
Exit unknown_answer() {
  const SizeLimitIgnored ignored;
  write_all(STDOUT_FILENO, plugin_answer("UNKNOWN", last_message()) + "\n");
  return ExitStatus::unknown;
}

// Runs the verb. Sets `has_json` once it is known whether the verb prints JSON.
Exit parse_and_perform(const std::vector<std::string>& args,
                       std::optional<bool>& has_json) {
  try {
    // dlock runs any command, so it must not lend its caller privileges.
    if (::getauxval(AT_SECURE) != 0) {
      return refused(ExitStatus::permission,
                     "refusing to run setuid, setgid or with file capabilities");
    }
    const auto wanted = parsed(args);
    if (const auto* text = std::get_if<Print>(&wanted)) {
      const SizeLimitIgnored ignored;
      if (write_all(STDOUT_FILENO, text->text)) return {};
      return refused(ExitStatus::unavailable, output_failure(errno));
    }
    const auto& invocation = std::get<Invocation>(wanted);
    has_json = prints_json(invocation);
    return perform(invocation);
  } catch (const UsageError& error) {
    return refused(error.from_file() ? ExitStatus::misconfigured : ExitStatus::usage,
                   error.what());
  } catch (const std::exception& error) {
    const auto failure = caught_failure();
    return failure
               ? refused(status_of(failure->kind()), failure->what())
               : refused(ExitStatus::bug, std::string("internal error: ") + error.what());
  }
}

// With --json a failure is a JSON document as well. If standard output cannot be written,
// the exit code still tells.
void print_failure(const Exit& exit) {
  if (exit.by_signal || !failure_kind(exit.code) || has_printed()) return;
  const SizeLimitIgnored ignored;
  write_all(STDOUT_FILENO, failure_document(exit.code, last_message()));
}

Exit dlock_main(const std::vector<std::string>& args) {
  std::optional<bool> has_json;
  if (asks_as_plugin(args)) answer_as_plugin();
  const auto exit = parse_and_perform(args, has_json);
  if (answers_as_plugin() && !exit.by_signal && failure_kind(exit.code)) {
    return unknown_answer();
  }
  // Determined only on failure, because most runs succeed or print no JSON.
  if (exit.code != 0 && (has_json ? *has_json : asks_for_json(args))) print_failure(exit);
  return exit;
}

}  // namespace
}  // namespace dlock

int main(int argc, char** argv) {
  dlock::open_standard_descriptors();
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  for (int i = 1; i < argc; ++i) dlock::hide_login(argv[i]);
  dlock::hide_secrets(environ);
  dlock::note_arguments(argc, argv);
  const auto exit = dlock::dlock_main(args);
  if (exit.by_signal) dlock::die_by(*exit.by_signal);
  return exit.code;
}
