#include "cli/run/service_notice.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>

#include "util/notify_socket.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

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

class ServiceNotice::Service {
 public:
  Service(asio::io_context& context, Notify notify, const NotifyAddress& address,
          const Speaker& speaker)
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

  void tell_status(const std::string& status) { send("STATUS=" + status); }

  // Tells it now, or as soon as the receiver has room for it.
  void tell_surely(const std::string& message) {
    unsent_ += (unsent_.empty() ? "" : "\n") + message;
    send_unsent();
    beats_.notify();
  }

  void command_starts() {
    if (notify_ != Notify::command) return;
    // Its messages come from a process that is not the main one.
    tell_surely("NOTIFYACCESS=all\n" + extend_by(time_to_become_ready));
  }

  void command_runs() {
    is_waiting_ = false;
    if (notify_ == Notify::dlock) {
      tell_surely("READY=1\nSTATUS=holding the lock; the command runs");
    }
    beats_.notify();
  }

  // Not HUP and QUIT, which make many services reload or print what they do. While the
  // run waits, any of them ends it at once.
  void got_signal(int signal) {
    const bool stops = signal == SIGTERM || signal == SIGINT;
    if (!stops || is_waiting_) return;
    tell_stopping("waiting for the command, which got SIG" + signal_name(signal));
  }

  void command_ended() { tell_stopping("releasing the lock"); }

  asio::awaitable<void> end() {
    beats_.give_up(true);
    while (is_beating_) co_await ended_.wait_until(Clock::time_point::max());
  }

 private:
  // A command that speaks for the unit may be a nested run of many in it.
  void tell_stopping(const std::string& status) {
    if (notify_ != Notify::dlock) return;
    tell_surely((is_stopping_ ? "STATUS=" : "STOPPING=1\nSTATUS=") + status);
    is_stopping_ = true;
  }

  // Returns whether the receiver has no room for it now. Complains of other errors, once.
  bool send(const std::string& message) {
    const int error = send_notification(address_, message);
    if (error == EAGAIN) return true;
    if (error != 0 && !has_complained_) {
      has_complained_ = true;
      speaker_.warning(complaint_about(std::strerror(error)));
    }
    return false;
  }

  void send_unsent() {
    if (!unsent_.empty() && !send(unsent_)) unsent_.clear();
  }

  // Once the command runs, it answers the watchdog itself if it speaks the protocol.
  bool answers_watchdog() const {
    return watchdog_ && (is_waiting_ || notify_ == Notify::dlock);
  }

  milliseconds until_next_beat() const {
    auto next = is_waiting_ ? extended_every : milliseconds::max();
    if (answers_watchdog()) next = std::min(next, *watchdog_);
    return unsent_.empty() ? next : std::min(next, again_after);
  }

  asio::awaitable<void> beat() {
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

  Notify notify_;
  NotifyAddress address_;
  const Speaker& speaker_;
  std::optional<milliseconds> watchdog_;
  bool is_waiting_ = true;
  bool is_stopping_ = false;
  bool has_complained_ = false;
  std::string unsent_;
  bool is_beating_ = true;
  Wakeup beats_;
  Wakeup ended_;
};

ServiceNotice::ServiceNotice(asio::io_context& context, Notify notify,
                             SignalInbox& signals, const Speaker& speaker) {
  if (notify == Notify::off) return;
  const char* variable = std::getenv("NOTIFY_SOCKET");
  const std::string socket = variable == nullptr ? "" : variable;
  if (const auto address = notify_address(socket)) {
    service_ = std::make_unique<Service>(context, notify, *address, speaker);
    signals.on_request_to_end([this](int signal) { service_->got_signal(signal); });
  } else if (socket.empty()) {
    speaker.step("NOTIFY_SOCKET is not set: no service manager to notify");
  } else {
    speaker.warning(
        complaint_about("NOTIFY_SOCKET is no address: " + printable(socket, 200)));
  }
  if (notify != Notify::dlock) return;
  for (const auto* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) {
    ::unsetenv(name);
  }
}

ServiceNotice::~ServiceNotice() = default;

WaitListener ServiceNotice::listener() {
  if (!service_) return {};
  return [this](const std::string& text) { service_->tell_status(text); };
}

void ServiceNotice::command_starts() {
  if (service_) service_->command_starts();
}

void ServiceNotice::command_runs() {
  if (service_) service_->command_runs();
}

void ServiceNotice::command_ended() {
  if (service_) service_->command_ended();
}

asio::awaitable<void> ServiceNotice::end(const RunResult& result) {
  if (!service_) co_return;
  service_->tell_status(result.message);
  co_await service_->end();
}

}  // namespace dlock
