#include "cli/show/loss_text.hpp"

#include "cli/show/holder_text.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

std::string cause_of(Loss loss, bool on_server,
                     const std::optional<FailedRenewals>& failed,
                     const std::optional<Taker>& taker) {
  switch (loss) {
    case Loss::taken_over: return "another holder was granted it";
    case Loss::gone:
      return on_server ? "the server no longer knows it (restarted or flushed?)"
                       : "the store no longer knows it (files removed or replaced?)";
    case Loss::failed_over: return "a server that took over did not know it";
    case Loss::broken:
      return taker ? taker_text(*taker) : "it was taken with dlock break";
    case Loss::unconfirmed: break;
  }
  if (!failed) return "its lease was not renewed in time";
  return "its lease could not be renewed for " + for_people(failed->lasted) + " (" +
         failed->why + ")";
}

}  // namespace

std::string taker_text(const Taker& taker) {
  return owner_text(taker.user, taker.host) + " took the lock with " +
         (taker.replaces ? "--replace"
          : taker.forced ? "dlock break --force"
                         : "dlock break");
}

std::string loss_text(Loss loss, CommandFate command, bool on_server,
                      const std::optional<FailedRenewals>& failed,
                      const std::optional<Taker>& taker) {
  const auto cause = cause_of(loss, on_server, failed, taker);
  switch (command) {
    case CommandFate::ended_in_time:
      return "lost the lock: " + cause +
             ", so the command was ended before the lease expired";
    case CommandFate::had_ended:
      return "lost the lock before the command ended: " + cause;
    case CommandFate::may_have_outlived:
      return "lost the lock: " + cause +
             "; the lease may have expired before the command ended";
    case CommandFate::was_ended: break;
  }
  return "lost the lock: " + cause + "; the command was ended";
}

}  // namespace dlock
