#include "cli/exit_text.hpp"

namespace dlock {
namespace {

using VerbSet = unsigned;

template <typename... Verbs>
constexpr VerbSet of(Verbs... verbs) {
  return ((1U << static_cast<unsigned>(verbs)) | ...);
}

constexpr VerbSet all = ~of(Verb::help);  // which does nothing
constexpr VerbSet with_command = of(Verb::run, Verb::cache, Verb::limit);

struct Row {
  ExitStatus status;
  VerbSet verbs;
  std::string_view text;
};

// A status may have several rows, but only one for each verb.
constexpr Row rows[] = {
    {ExitStatus::success, of(Verb::run), "skipped: another run counts (--dedupe)"},
    {ExitStatus::success, of(Verb::acquire), "taken; the token is printed"},
    {ExitStatus::success, of(Verb::renew), "renewed"},
    {ExitStatus::success, of(Verb::release), "given back"},
    {ExitStatus::success, of(Verb::check), "this grant still holds the lock"},
    {ExitStatus::success, of(Verb::fence, Verb::limit), "admitted"},
    {ExitStatus::success, of(Verb::status), "somebody holds the lock"},
    {ExitStatus::success, of(Verb::list), "shown, even if there is nothing to show"},
    {ExitStatus::success, of(Verb::history),
     "shown, even if there is nothing; it did succeed within that"},
    {ExitStatus::success, of(Verb::doctor), "all is well"},
    {ExitStatus::success, of(Verb::break_lock), "taken from its holders"},
    {ExitStatus::success, of(Verb::cache), "printed, or with --forget dropped"},
    {ExitStatus::success, of(Verb::config), "shown; all of the file can be right"},
    {ExitStatus::success, of(Verb::help), "printed"},
    {ExitStatus::not_held, of(Verb::status), "nobody holds the lock"},
    {ExitStatus::not_held, of(Verb::break_lock),
     "nobody holds it, or not by that fence, or the answer was no"},
    {ExitStatus::not_held, of(Verb::history), "it did not (--succeeded-within)"},
    {ExitStatus::warnings_found, of(Verb::doctor), "there are warnings"},
    {ExitStatus::errors_found, of(Verb::doctor), "there are errors"},
    {ExitStatus::usage, all | of(Verb::help), "usage: a word that cannot be right"},
    {ExitStatus::unavailable, of(Verb::help), "standard output cannot be written"},
    {ExitStatus::unavailable, all, "the store cannot be reached or used for now"},
    {ExitStatus::bug, all, "a bug in dlock"},
    {ExitStatus::not_obtained, of(Verb::run, Verb::cache),
     "not obtained: held by others, wait over (or what -E says)"},
    {ExitStatus::not_obtained, of(Verb::acquire),
     "not obtained: held by others, wait over"},
    {ExitStatus::not_obtained, of(Verb::limit), "not admitted: the rate is exceeded"},
    {ExitStatus::lost, of(Verb::run, Verb::cache),
     "the lock was lost while the command ran, which was ended"},
    {ExitStatus::lost, of(Verb::renew, Verb::release),
     "the lock is not held by this token any more"},
    {ExitStatus::lost, of(Verb::check), "it does not, or not for long enough"},
    {ExitStatus::lost, of(Verb::fence), "stale: a greater one was admitted before"},
    {ExitStatus::permission, all, "permission: login, rights, certificate, directory"},
    {ExitStatus::misconfigured, all, "configuration: store URL, file, or kind of key"},
    {ExitStatus::timed_out, of(Verb::run), "--timeout ended the command"},
    {ExitStatus::no_resources, all, "no processes, descriptors or memory left"},
    {ExitStatus::not_executable, with_command, "the command cannot be executed"},
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
