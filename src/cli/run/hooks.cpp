#include "cli/run/hooks.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "loop/run_blocking.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"
#include "util/fd.hpp"
#include "util/text.hpp"

// Header-only use, so that Boost.Filesystem is not linked.
#define BOOST_PROCESS_USE_STD_FS
#include <boost/process/args.hpp>
#include <boost/process/async.hpp>
#include <boost/process/child.hpp>
#include <boost/process/env.hpp>
#include <boost/process/environment.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/extend.hpp>
#include <boost/process/group.hpp>
#include <boost/process/io.hpp>

namespace dlock {
namespace {

namespace process = boost::process;

std::string text_of_number(const std::optional<int>& number) {
  return number ? std::to_string(*number) : "";
}

process::environment environment_of(const std::vector<std::string>& entries) {
  process::environment environment;
  for (const auto& entry : entries) {
    const auto equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos) continue;  // not a shell variable
    environment[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return environment;
}

// How the shell ended if dlock did not end it; empty if it succeeded.
std::string trouble_of(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return "was ended by SIG" + signal_name(WTERMSIG(wait_status));
  const auto code = WEXITSTATUS(wait_status);
  return code == 0 ? "" : "ended with exit code " + std::to_string(code);
}

// Unblocks SIGCHLD for Asio's handler while this object lives; at other times it is
// blocked like all signals and read from a descriptor.
class ChildSignal {
 public:
  ChildSignal() { change(SIG_UNBLOCK); }
  ~ChildSignal() { change(SIG_BLOCK); }
  ChildSignal(const ChildSignal&) = delete;
  ChildSignal& operator=(const ChildSignal&) = delete;

 private:
  static void change(int how) {
    sigset_t only;
    ::sigemptyset(&only);
    ::sigaddset(&only, SIGCHLD);
    ::sigprocmask(how, &only, nullptr);
  }
};

// One running hook.
class Hook {
 public:
  Hook(asio::io_context& context, const HookPlan& plan, const HeldSignals& held)
      : context_(context),
        plan_(plan),
        wakeup_(context),
        signals_(context, wakeup_, held) {}

  asio::awaitable<HookEnd> run_to_end();

 private:
  std::error_code start();
  void launch(std::error_code& error);
  void obey(Clock::time_point now);
  void end_it(Clock::time_point now);
  bool is_over(Clock::time_point now) const;
  Clock::time_point next_look(Clock::time_point now) const;
  HookEnd result() const;

  asio::io_context& context_;
  const HookPlan& plan_;
  Wakeup wakeup_;
  SignalInbox signals_;
  process::group group_;
  process::child shell_;
  pid_t group_id_ = 0;
  bool has_ended_ = false;  // the shell
  Clock::time_point end_at_ = Clock::time_point::max();
  Clock::time_point kill_at_ = Clock::time_point::max();  // set once TERM was sent
  bool was_killed_ = false;
  std::optional<int> signal_;
};

std::error_code Hook::start() {
  std::error_code error;
  try {
    launch(error);
  } catch (const std::system_error& thrown) {
    // Boost.Process throws if it cannot create the pipe for the input ...
    return thrown.code();
  }
  if (error) return error;
  // ... and sets no error if it cannot create its own.
  if (!shell_.valid()) return std::make_error_code(std::errc::too_many_files_open);
  group_id_ = group_.native_handle();
  return {};
}

// Its process group gets no signals from the terminal: dlock gets them and ends the hook.
void Hook::launch(std::error_code& error) {
  const auto input = asio::buffer(plan_.input);
  const auto& inherited = signals_.inherited();
  shell_ = process::child(
      process::exe = "/bin/sh",
      process::args = std::vector<std::string>{"-c", plan_.line},
      environment_of(plan_.environment), process::std_in<input, process::std_out> stderr,
      group_, context_,
      process::on_exit =
          [this](int, const std::error_code&) {
            has_ended_ = true;
            wakeup_.notify();
          },
      process::extend::on_exec_setup =
          [&inherited](auto&) {
            if (inherited.child_ignored) ::signal(SIGCHLD, SIG_IGN);
            ::sigprocmask(SIG_SETMASK, &inherited.mask, nullptr);
          },
      error);
}

asio::awaitable<HookEnd> Hook::run_to_end() {
  wakeup_.prepare();  // the timer that ends the hook, before it starts
  while (signals_.next()) {
  }
  if (const auto error = start()) {
    // As in an image that has no shell.
    const bool no_shell = error == std::errc::no_such_file_or_directory;
    co_return HookEnd{
        "could not be started: " + (no_shell ? "there is no /bin/sh" : error.message()),
        std::nullopt};
  }
  end_at_ = later(Clock::now(), plan_.limit);
  {
    const ChildSignal goes_through;
    for (;;) {
      const auto now = Clock::now();
      obey(now);
      if (is_over(now)) break;
      co_await wakeup_.wait_until(next_look(now));
    }
  }
  group_.detach();  // otherwise processes that it leaves behind would be killed
  if (!has_ended_) shell_.detach();
  co_return result();
}

// Forwards a signal that ends dlock, and enforces the time limit.
void Hook::obey(Clock::time_point now) {
  while (const auto signal = signals_.next()) {
    if (!ends_by_default(signal->number)) continue;
    // A second signal means not to wait any longer.
    if (signal_) kill_at_ = now;
    if (!signal_) signal_ = signal->number;
  }
  const bool was_told = kill_at_ != Clock::time_point::max();
  if (!was_told && !has_ended_ && (signal_ || now >= end_at_)) {
    kill_at_ = later(now, plan_.kill_after);
    ::killpg(group_id_, SIGTERM);
    ::killpg(group_id_, SIGCONT);  // a stopped process would not notice
  }
  if (now >= kill_at_ && !was_killed_) {
    was_killed_ = true;
    ::killpg(group_id_, SIGKILL);
  }
}

// After the time limit all of its processes have to be gone. But dlock does not wait
// forever for a process that even SIGKILL does not end, because it waits for a disk.
bool Hook::is_over(Clock::time_point now) const {
  if (was_killed_ && now >= later(kill_at_, plan_.kill_after)) return true;
  if (!has_ended_) return false;
  if (kill_at_ == Clock::time_point::max() || was_killed_) return true;
  // Orphans that were reparented to us.
  while (::waitpid(-group_id_, nullptr, WNOHANG) > 0) {
  }
  return ::killpg(group_id_, 0) != 0;
}

Clock::time_point Hook::next_look(Clock::time_point now) const {
  // There is no notification when processes end that are not our children.
  constexpr milliseconds pause{20};
  if (has_ended_) return later(now, pause);
  return was_killed_ ? later(kill_at_, plan_.kill_after) : std::min(end_at_, kill_at_);
}

HookEnd Hook::result() const {
  if (signal_) return {"", signal_};
  if (kill_at_ != Clock::time_point::max()) {
    return {"was ended because it took longer than " + for_people(plan_.limit), {}};
  }
  return {trouble_of(shell_.native_exit_code()), {}};
}

}  // namespace

std::optional<HookKind> hook_for(const RunResult& result) {
  switch (result.outcome) {
    case RunOutcome::ran:
      return result.exit_code == 0 ? HookKind::on_success : HookKind::on_failure;
    case RunOutcome::busy:
    case RunOutcome::superseded: return HookKind::on_busy;
    case RunOutcome::deduplicated:
    case RunOutcome::interrupted: return std::nullopt;
    case RunOutcome::lost:
    case RunOutcome::unavailable:
    case RunOutcome::timeout:
    case RunOutcome::not_started:
    case RunOutcome::error: break;
  }
  return HookKind::on_failure;
}

std::string_view option_of(HookKind kind) {
  switch (kind) {
    case HookKind::on_success: return "--on-success";
    case HookKind::on_failure: return "--on-failure";
    case HookKind::on_busy: break;
  }
  return "--on-busy";
}

const std::string& line_for(HookKind kind, const HookLines& lines) {
  switch (kind) {
    case HookKind::on_success: return lines.on_success;
    case HookKind::on_failure: return lines.on_failure;
    case HookKind::on_busy: break;
  }
  return lines.on_busy;
}

std::vector<std::string> hook_variables(const std::string& lock,
                                        const RunResult& result) {
  const auto [exit_code, signal] = reported_end(result);
  return {
      "DLOCK_NAME=" + lock,
      "DLOCK_OUTCOME=" + name_of(result.outcome),
      "DLOCK_REASON=" + (result.reason ? loss_name(*result.reason) : ""),
      "DLOCK_EXIT_CODE=" + text_of_number(exit_code),
      "DLOCK_SIGNAL=" + (signal ? signal_name(*signal) : ""),
      "DLOCK_RAN_MS=" + (result.ran ? std::to_string(result.ran->count()) : ""),
      "DLOCK_HOLDER_HOST=" + (result.holder ? safe_host(result.holder->host) : ""),
  };
}

HookEnd run_hook(const HookPlan& plan, const HeldSignals& held) {
  try {
    asio::io_context context(1);
    Hook hook(context, plan, held);
    return run_blocking(context, [&] { return hook.run_to_end(); });
  } catch (...) {
    const auto failure = caught_failure();
    if (!failure) throw;
    return {"could not be started: " + std::string(failure->what()), {}};
  }
}

}  // namespace dlock
