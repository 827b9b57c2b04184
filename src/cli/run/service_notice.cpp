#include "cli/run/service_notice.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "util/fd.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// Sends one message. Returns 0 or an errno; EAGAIN if the receiver is too busy now.
// Never waits for it.
int send_notification(const NotifyAddress& to, std::string_view message) {
  const Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.address), to.size) != 0) {
    return errno;
  }
  const auto sent =
      ::send(fd.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 ? errno : 0;
}

// How long the start may go on after each message, and how often that is said. Three
// times as long, in case this process is stopped or the machine is busy.
constexpr std::chrono::seconds extended_by{30};
constexpr milliseconds extended_every{10'000};

// What the command has to become ready in, if it tells that itself: systemd's default.
constexpr std::chrono::seconds time_to_become_ready{90};

// A message that must not be omitted is sent again after this time.
constexpr milliseconds again_after{100};

std::string complaint_about(const std::string& what) {
  return "warning: cannot notify the service manager: " + what;
}

std::string extend_by(std::chrono::microseconds span) {
  return "EXTEND_TIMEOUT_USEC=" + std::to_string(span.count());
}

// How often the watchdog of the unit wants to hear from this process: twice in the time
// that it allows. Nothing if it does not watch this process.
std::optional<milliseconds> watchdog_interval() {
  const char* micros = std::getenv("WATCHDOG_USEC");
  const char* pid = std::getenv("WATCHDOG_PID");
  if (micros == nullptr) return std::nullopt;
  if (pid != nullptr && number_in<pid_t>(pid) != ::getpid()) return std::nullopt;
  const auto allowed = number_in<std::int64_t>(micros);
  if (!allowed || *allowed <= 0) return std::nullopt;
  const auto half = std::chrono::microseconds(*allowed) / 2;
  return std::max(std::chrono::floor<milliseconds>(half), milliseconds(1));
}

}  // namespace

std::optional<NotifyAddress> notify_address(std::string_view text) {
  NotifyAddress to;
  to.address.sun_family = AF_UNIX;
  const bool is_abstract = text.starts_with('@');
  if ((!is_abstract && !text.starts_with('/')) || text.size() < 2 ||
      text.size() >= sizeof to.address.sun_path) {
    return std::nullopt;
  }
  std::copy(text.begin(), text.end(), to.address.sun_path);
  if (is_abstract) to.address.sun_path[0] = '\0';
  // The zero at the end belongs to a path, but would be a part of an abstract name.
  const auto length = text.size() + (is_abstract ? 0 : 1);
  to.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  return to;
}

std::unique_ptr<ServiceNotice> ServiceNotice::begin(asio::io_context& context,
                                                    Notify notify, SignalInbox& signals,
                                                    const Speaker& speaker) {
  const auto socket = environment("NOTIFY_SOCKET");
  std::unique_ptr<ServiceNotice> notice;
  if (const auto address = notify_address(socket)) {
    notice = std::make_unique<ServiceNotice>(context, notify, *address, speaker);
    signals.on_request_to_end(
        [it = notice.get()](int signal) { it->got_signal(signal); });
  } else if (socket.empty()) {
    speaker.step("NOTIFY_SOCKET is not set: no service manager to notify");
  } else {
    speaker.warning(
        complaint_about("NOTIFY_SOCKET is no address: " + printable(socket, 200)));
  }
  if (notify != Notify::dlock) return notice;
  for (const auto* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) {
    ::unsetenv(name);
  }
  return notice;
}

ServiceNotice::ServiceNotice(asio::io_context& context, Notify notify,
                             const NotifyAddress& address, const Speaker& speaker)
    : notify_(notify),
      address_(address),
      speaker_(speaker),
      watchdog_(watchdog_interval()),
      beats_(context),
      ended_(context) {
  tell_status("asking for the lock");
  asio::co_spawn(context, beat(), [this](const std::exception_ptr&) {
    is_beating_ = false;
    ended_.notify();
  });
}

// Tells it now, or as soon as the receiver has room for it.
void ServiceNotice::tell_surely(const std::string& message) {
  unsent_ += (unsent_.empty() ? "" : "\n") + message;
  send_unsent();
  beats_.notify();
}

void ServiceNotice::command_starts() {
  if (notify_ != Notify::command) return;
  // Its messages come from a process that is not the main one.
  tell_surely("NOTIFYACCESS=all\n" + extend_by(time_to_become_ready));
}

void ServiceNotice::command_runs() {
  is_waiting_ = false;
  if (notify_ == Notify::dlock) {
    tell_surely("READY=1\nSTATUS=holding the lock; the command runs");
  }
  beats_.notify();
}

// Not HUP and QUIT, which make many services reload or print what they do. While the run
// waits, any of them ends it at once.
void ServiceNotice::got_signal(int signal) {
  const bool stops = signal == SIGTERM || signal == SIGINT;
  if (!stops || is_waiting_) return;
  tell_stopping("waiting for the command, which got SIG" + signal_name(signal));
}

// A command that speaks for the unit may be a nested run of many in it.
void ServiceNotice::tell_stopping(const std::string& status) {
  if (notify_ != Notify::dlock) return;
  tell_surely((is_stopping_ ? "STATUS=" : "STOPPING=1\nSTATUS=") + status);
  is_stopping_ = true;
}

asio::awaitable<void> ServiceNotice::end(const RunResult& result) {
  tell_status(result.message);
  beats_.give_up(true);
  while (is_beating_) co_await ended_.wait_until(Clock::time_point::max());
}

// Returns whether the receiver has no room for it now. Complains of other errors, once.
bool ServiceNotice::send(const std::string& message) {
  const int error = send_notification(address_, message);
  if (error == EAGAIN) return true;
  if (error != 0 && !has_complained_) {
    has_complained_ = true;
    speaker_.warning(complaint_about(std::strerror(error)));
  }
  return false;
}

void ServiceNotice::send_unsent() {
  if (!unsent_.empty() && !send(unsent_)) unsent_.clear();
}

// Once the command runs, it answers the watchdog itself if it speaks the protocol.
bool ServiceNotice::answers_watchdog() const {
  return watchdog_ && (is_waiting_ || notify_ == Notify::dlock);
}

milliseconds ServiceNotice::until_next_beat() const {
  auto next = is_waiting_ ? extended_every : milliseconds::max();
  if (answers_watchdog()) next = std::min(next, *watchdog_);
  return unsent_.empty() ? next : std::min(next, again_after);
}

asio::awaitable<void> ServiceNotice::beat() {
  auto extend_at = Clock::now();
  for (;;) {
    send_unsent();
    std::string message;
    const auto now = Clock::now();
    if (is_waiting_ && now >= extend_at) {
      message = extend_by(extended_by);
      extend_at = now + extended_every;
    }
    if (answers_watchdog()) message += message.empty() ? "WATCHDOG=1" : "\nWATCHDOG=1";
    if (!message.empty()) send(message);
    if (beats_.gives_up()) co_return;
    const auto next = later(now, until_next_beat());
    co_await beats_.wait_until(next);
  }
}

}  // namespace dlock
