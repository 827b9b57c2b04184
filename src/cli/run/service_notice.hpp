// What a run tells the service manager (systemd) that has started it: --notify. The
// messages are those of sd_notify(3).
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/args/options.hpp"
#include "cli/run/run_result.hpp"
#include "cli/terminal/speaker.hpp"
#include "loop/wakeup.hpp"
#include "supervise/signals.hpp"

namespace dlock {

struct NotifyAddress {
  sockaddr_un address{};
  socklen_t size = 0;
};

// The address in a NOTIFY_SOCKET: an absolute path, or `@` and the name of an abstract
// socket. Nothing if it is neither, or too long. A service manager that is reached
// through vsock is that of a virtual machine's host, and starts no run itself.
std::optional<NotifyAddress> notify_address(std::string_view text);

// dlock stays the main process of the unit (it sends no MAINPID=): if the command were,
// the service manager would kill dlock as soon as the command ends, before it has
// released the lock, and would take the exit code of the command for that of the run.
class ServiceNotice {
 public:
  // Begins to say that the start takes longer, to answer the watchdog, and to say that
  // the unit stops when one of `signals` asks for it. Null without a service manager.
  // With Notify::dlock, the variables of the protocol are removed from this process's
  // environment, so that the command does not speak for the unit as well.
  static std::unique_ptr<ServiceNotice> begin(asio::io_context& context, Notify notify,
                                              SignalInbox& signals,
                                              const Speaker& speaker);

  // See begin().
  ServiceNotice(asio::io_context& context, Notify notify, const NotifyAddress& address,
                const Speaker& speaker);
  ServiceNotice(const ServiceNotice&) = delete;
  ServiceNotice& operator=(const ServiceNotice&) = delete;

  // Passes on what the run waits for.
  WaitListener listener() {
    return [this](const std::string& text) { tell_status(text); };
  }

  // Before the command starts, once it runs, and when it is being stopped or has ended.
  void command_starts();
  void command_runs();
  void tell_stopping(const std::string& status);

  // The run is over. Also says why, if its command did not run or was stopped.
  asio::awaitable<void> end(const RunResult& result);

 private:
  void tell_status(const std::string& status) { send("STATUS=" + status); }
  void tell_surely(const std::string& message);
  void got_signal(int signal);
  bool send(const std::string& message);
  void send_unsent();
  bool answers_watchdog() const;
  milliseconds until_next_beat() const;
  asio::awaitable<void> beat();

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

}  // namespace dlock
