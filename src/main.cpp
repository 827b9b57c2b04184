// The main program: parses the command line, runs the verb and exits with its status.

#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "cli/args/app.hpp"
#include "cli/show/failure_document.hpp"
#include "cli/terminal/speaker.hpp"
#include "cli/verbs/acquire.hpp"
#include "cli/verbs/break.hpp"
#include "cli/verbs/by_hand.hpp"
#include "cli/verbs/cache.hpp"
#include "cli/verbs/config.hpp"
#include "cli/verbs/doctor.hpp"
#include "cli/verbs/history.hpp"
#include "cli/verbs/limit.hpp"
#include "cli/verbs/look.hpp"
#include "cli/verbs/run.hpp"
#include "cli/verbs/watch.hpp"
#include "store/url_advice.hpp"
#include "supervise/signals.hpp"
#include "util/failure.hpp"

namespace dlock {
namespace {

// Opens /dev/null for descriptors 0 to 2 if they are closed. Otherwise the next file to
// be opened would get such a number, and messages would be written into it.
// Close-on-exec, so that the command finds them closed as we did.
void open_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_RDWR | O_CLOEXEC);
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

// Whether the verb can start a command; it holds signals back itself.
bool starts_command(Verb verb) {
  return verb == Verb::run || verb == Verb::cache || verb == Verb::limit;
}

Exit perform(const Invocation& invocation) {
  quote_servers(invocation.common.verbose);
  warn(invocation);
  std::optional<SizeLimitIgnored> ignored;
  if (!starts_command(invocation.verb)) ignored.emplace();
  switch (invocation.verb) {
    case Verb::run: return run_verb(invocation);
    case Verb::cache: return cache_verb(invocation);
    case Verb::acquire: return acquire_verb(invocation);
    case Verb::renew: return {code_of(renew_verb(invocation)), {}};
    case Verb::release: return {code_of(release_verb(invocation)), {}};
    case Verb::check: return {code_of(check_verb(invocation)), {}};
    case Verb::fence: return {code_of(fence_verb(invocation)), {}};
    case Verb::limit: return limit_verb(invocation);
    case Verb::status: return {code_of(status_verb(invocation)), {}};
    case Verb::history: return {code_of(history_verb(invocation)), {}};
    case Verb::doctor: return {code_of(doctor_verb(invocation)), {}};
    case Verb::break_lock: return {code_of(break_verb(invocation)), {}};
    case Verb::watch: return watch_verb(invocation);
    case Verb::config: return {code_of(config_verb(invocation)), {}};
    case Verb::help:  // printed already
    case Verb::list: break;
  }
  return list_verb(invocation);
}

Exit refused(ExitStatus status, const std::string& message) {
  const SizeLimitIgnored ignored;
  Speaker("", false, false).error(message);
  return {code_of(status), {}};
}

// Runs the verb. Sets `prints_json` once it is known whether the verb prints JSON.
Exit performed(const std::vector<std::string>& args, std::optional<bool>& prints_json) {
  try {
    // dlock runs any command, so it must not lend its caller privileges.
    if (::getauxval(AT_SECURE) != 0) {
      return refused(ExitStatus::permission,
                     "refusing to run setuid, setgid or with file capabilities");
    }
    const auto wanted = parsed(args);
    if (const auto* text = std::get_if<Print>(&wanted)) {
      const SizeLimitIgnored ignored;
      if (write_text(STDOUT_FILENO, text->text)) return {};
      return refused(ExitStatus::unavailable, output_failure(errno));
    }
    const auto& invocation = std::get<Invocation>(wanted);
    prints_json = invocation.common.json && has_json_output(invocation);
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

// With --json a failure is a JSON document, too. If standard output cannot be written,
// the exit code still tells.
void print_failure(const Exit& exit) {
  if (exit.by_signal || !failure_kind(exit.code) || has_printed()) return;
  const SizeLimitIgnored ignored;
  write_text(STDOUT_FILENO, failure_document(exit.code, last_message()));
}

Exit dlock_main(const std::vector<std::string>& args) {
  std::optional<bool> prints_json;
  const auto exit = performed(args, prints_json);
  // Determined only on failure, because most runs succeed or print no JSON.
  if (exit.code != 0 && prints_json != false) {
    if (prints_json || asks_for_json(args)) print_failure(exit);
  }
  return exit;
}

}  // namespace
}  // namespace dlock

int main(int argc, char** argv) {
  dlock::open_standard_descriptors();
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  for (int i = 1; i < argc; ++i) dlock::hide_login(argv[i]);
  const auto exit = dlock::dlock_main(args);
  if (exit.by_signal) dlock::die_by(*exit.by_signal);
  return exit.code;
}
