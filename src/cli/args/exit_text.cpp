#include "cli/args/exit_text.hpp"

namespace dlock {
namespace {

using VerbSet = unsigned;

template <typename... Verbs>
constexpr VerbSet of(Verbs... verbs) {
  return ((1U << static_cast<unsigned>(verbs)) | ...);
}

constexpr VerbSet all = ~of(Verb::help);  // which does nothing
// These report what they find out about the store, or do not contact it.
constexpr VerbSet without_store = of(Verb::help, Verb::config, Verb::doctor);
constexpr VerbSet with_command = of(Verb::run, Verb::cache, Verb::limit);

struct Row {
  ExitStatus status;
  VerbSet verbs;
  std::string_view text;
};

// A status may have several rows, but only one for each verb.
constexpr Row rows[] = {
    {ExitStatus::success, of(Verb::run),
     "deduplicated: another run counts as this one (--dedupe)"},
    {ExitStatus::success, of(Verb::acquire), "acquired; the token is printed"},
    {ExitStatus::success, of(Verb::renew), "renewed"},
    {ExitStatus::success, of(Verb::release), "released"},
    {ExitStatus::success, of(Verb::check), "this grant still holds the lock"},
    {ExitStatus::success, of(Verb::fence, Verb::limit), "admitted"},
    {ExitStatus::success, of(Verb::status), "the lock is held"},
    {ExitStatus::success, of(Verb::list), "listed, even if there are no locks"},
    {ExitStatus::success, of(Verb::history),
     "listed, even if there are no runs; or it succeeded in time"},
    {ExitStatus::success, of(Verb::doctor), "no problems found"},
    {ExitStatus::success, of(Verb::break_lock), "taken from its holders"},
    {ExitStatus::success, of(Verb::cache),
     "printed, described (--show) or removed (--forget)"},
    {ExitStatus::success, of(Verb::config), "shown; the configuration file is valid"},
    {ExitStatus::success, of(Verb::help), "printed"},
    {ExitStatus::not_held, of(Verb::status), "the lock is free"},
    {ExitStatus::not_held, of(Verb::break_lock),
     "not held, not held by that fence, or declined at the prompt"},
    {ExitStatus::not_held, of(Verb::history),
     "it did not succeed in time (--succeeded-within)"},
    {ExitStatus::not_held, of(Verb::cache), "nothing is stored (--show)"},
    {ExitStatus::warnings_found, of(Verb::doctor), "there are warnings"},
    {ExitStatus::errors_found, of(Verb::doctor), "there are errors"},
    {ExitStatus::usage, all | of(Verb::help), "invalid command line"},
    {ExitStatus::unavailable, without_store, "cannot write to standard output"},
    {ExitStatus::unavailable, all & ~without_store,
     "unavailable: the store cannot be reached or used"},
    {ExitStatus::bug, all, "a bug in dlock"},
    {ExitStatus::not_obtained, of(Verb::run, Verb::cache),
     "not obtained: held by others or wait over (-E sets this code)"},
    {ExitStatus::not_obtained, of(Verb::acquire),
     "not obtained: held by others or wait over"},
    {ExitStatus::not_obtained, of(Verb::limit), "not admitted: the rate is exceeded"},
    {ExitStatus::lost, of(Verb::run, Verb::cache),
     "the lock was lost before the command had ended"},
    {ExitStatus::lost, of(Verb::renew, Verb::release),
     "the lock is no longer held by this token"},
    {ExitStatus::lost, of(Verb::check),
     "this grant no longer holds the lock, or not for long enough"},
    {ExitStatus::lost, of(Verb::fence), "stale: a greater fence was admitted before"},
    {ExitStatus::permission, all,
     "permission denied: login, ACL, certificate or directory"},
    {ExitStatus::misconfigured, all,
     "invalid configuration: store URL, file or kind of key"},
    {ExitStatus::timed_out, of(Verb::run), "--timeout ended the command"},
    {ExitStatus::no_resources, all, "out of processes, file descriptors or memory"},
    {ExitStatus::not_executable, with_command, "the command is not executable"},
    {ExitStatus::not_found, with_command, "the command was not found"},
};

}  // namespace

std::vector<ExitText> exit_texts(Verb verb) {
  std::vector<ExitText> texts;
  for (const auto& row : rows) {
    if ((row.verbs & of(verb)) != 0) texts.push_back({row.status, row.text});
  }
  return texts;
}

bool passes_status_on(Verb verb) { return (with_command & of(verb)) != 0; }

}  // namespace dlock
