#include "supervise/supervisor.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "util/fd.hpp"

namespace dlock {

bool has_reached_command(const Signal& signal, const SupervisionPlan& plan) {
  if (plan.own_group || !signal.from_kernel) return false;
  // A hangup goes only to the session's leader. Other sources (an alarm, a limit) concern
  // only this process.
  if (signal.number == SIGHUP) return ::getsid(0) != ::getpid();
  return signal.number == SIGINT || signal.number == SIGQUIT ||
         signal.number == SIGWINCH || signal.number == SIGCONT;
}

bool is_for_command(int signal) { return signal != SIGCHLD && signal != SIGURG; }

std::string unkillable(int count) {
  return "cannot end " + std::to_string(count) +
         " of the command's processes (no permission); keeping the lock until they are "
         "gone";
}

std::string not_gone() {
  return "the command's processes were killed but are not gone, or keep starting others; "
         "keeping the lock until they are gone";
}

bool has_terminal() {
  return static_cast<bool>(Fd(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)));
}

}  // namespace dlock
