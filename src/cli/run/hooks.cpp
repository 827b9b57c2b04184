#include "cli/run/hooks.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "loop/event_loop.hpp"
#include "loop/wakeup.hpp"
#include "supervise/process_scan.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"
#include "util/process.hpp"
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
    return "was killed by SIG" + signal_name(WTERMSIG(wait_status));
  const auto code = WEXITSTATUS(wait_status);
  return code == 0 ? "" : "ended with exit code " + std::to_string(code);
}

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
  bool is_over(Clock::time_point now) const;
  bool lives_on() const;
  Clock::time_point next_look(Clock::time_point now) const;
  HookEnd result();

  asio::io_context& context_;
  const HookPlan& plan_;
  Wakeup wakeup_;
  SignalInbox signals_;
  process::group group_;
  process::child shell_;
  // Also the pid of the shell, which is reaped last, so that both stay its own.
  pid_t group_id_ = 0;
  std::optional<Readable> end_;  // until the shell has ended
  bool has_ended_ = false;       // the shell
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
  // Its death may have been among these.
  if (plan_.parent != 0 && ::getppid() != plan_.parent) co_return HookEnd{};
  if (const auto error = start()) {
    // As in an image that has no shell.
    const bool no_shell = error == std::errc::no_such_file_or_directory;
    co_return HookEnd{
        "could not be started: " + (no_shell ? "there is no /bin/sh" : error.message()),
        std::nullopt};
  }
  end_at_ = later(Clock::now(), plan_.limit);
  try {
    if (Fd shell(open_pidfd(group_id_)); shell) {
      end_.emplace(context_, std::move(shell), [this] {
        wakeup_.notify();
        end_.reset();  // it stays readable
      });
    }
  } catch (const Failure&) {  // it is asked from time to time instead
  }
  for (;;) {
    const auto now = Clock::now();
    if (!end_) {
      const auto state = state_of_child(group_id_);
      has_ended_ = state == ChildState::ended || state == ChildState::none;
    }
    obey(now);
    if (is_over(now)) break;
    co_await wakeup_.wait_until(next_look(now));
  }
  group_.detach();  // otherwise processes that it leaves behind would be killed
  shell_.detach();
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

// After the time limit all of its processes must have exited. But dlock does not wait
// forever for a process that even SIGKILL does not end, because it waits for a disk.
bool Hook::is_over(Clock::time_point now) const {
  if (was_killed_ && now >= later(kill_at_, plan_.kill_after)) return true;
  if (!has_ended_) return false;
  return kill_at_ == Clock::time_point::max() || was_killed_ || !lives_on();
}

// Whether its group has processes that have not ended.
bool Hook::lives_on() const {
  const auto all = all_processes();
  return std::any_of(all.begin(), all.end(), [&](const ProcessInfo& one) {
    return one.group == group_id_ && !one.is_dead;
  });
}

Clock::time_point Hook::next_look(Clock::time_point now) const {
  // There is no notification when processes end that are not our children.
  constexpr milliseconds pause{20};
  if (!end_) return later(now, pause);
  return was_killed_ ? later(kill_at_, plan_.kill_after) : std::min(end_at_, kill_at_);
}

HookEnd Hook::result() {
  const int status = has_ended_ ? reap(group_id_) : 0;
  // Orphans that were reparented to us.
  while (::waitpid(-group_id_, nullptr, WNOHANG) > 0) {
  }
  if (signal_) return {"", signal_};
  if (kill_at_ != Clock::time_point::max()) {
    return {"was killed because it took longer than " + for_people(plan_.limit), {}};
  }
  return {trouble_of(status), {}};
}

// Waits for a byte; false at the end of the channel.
bool received(int channel, char* word) {
  ssize_t size = 0;
  do {
    size = ::recv(channel, word, 1, 0);
  } while (size < 0 && errno == EINTR);
  return size == 1;
}

}  // namespace

const AfterHook* hook_for(const RunResult& result) {
  switch (result.outcome) {
    case RunOutcome::ran: return result.exit_code == 0 ? &success_hook : &failure_hook;
    case RunOutcome::busy:
    case RunOutcome::superseded: return &busy_hook;
    case RunOutcome::running:
    case RunOutcome::deduplicated:
    case RunOutcome::interrupted: return nullptr;
    case RunOutcome::lost:
    case RunOutcome::unavailable:
    case RunOutcome::timeout:
    case RunOutcome::not_started:
    case RunOutcome::error: break;
  }
  return &failure_hook;
}

std::vector<std::string> hook_variables(const std::string& lock,
                                        const RunResult& result) {
  const auto [exit_code, signal] = reported_end(result);
  return {
      "DLOCK_NAME=" + lock,
      "DLOCK_OUTCOME=" + name_of(result.outcome),
      "DLOCK_REASON=" + (result.reason ? loss_name(*result.reason) : ""),
      "DLOCK_EXIT_CODE=" + (exit_code ? std::to_string(*exit_code) : ""),
      "DLOCK_SIGNAL=" + (signal ? signal_name(*signal) : ""),
      "DLOCK_RAN_MS=" + (result.ran ? std::to_string(result.ran->count()) : ""),
      "DLOCK_HOLDER_HOST=" + (result.holder ? safe_host(result.holder->host) : ""),
  };
}

HookEnd run_hook(const HookPlan& plan, const HeldSignals& held) {
  try {
    EventLoop context;
    Hook hook(context, plan, held);
    return run_blocking(context, [&] { return hook.run_to_end(); });
  } catch (...) {
    const auto failure = caught_failure();
    if (!failure) throw;
    return {"could not be started: " + std::string(failure->what()), {}};
  }
}

StartHook::StartHook(const std::string& line, const CommandStreams& output,
                     const HeldSignals& held, const Speaker& speaker)
    : speaker_(speaker), plan_(::memfd_create("dlock-on-start", MFD_CLOEXEC)) {
  int ends[2] = {-1, -1};
  process_ = -1;
  if (plan_ && ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
    process_ = ::fork();
  }
  const int error = errno;
  Fd ours(ends[0]);
  Fd theirs(ends[1]);
  if (process_ == 0) {
    ours.reset();
    channel_ = std::move(theirs);
    output.close_ends();
    output.close_readers();
    ::setpgid(0, 0);
    ::prctl(PR_SET_NAME, "dlock-on-start", 0, 0, 0);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (::getppid() == dlock_) serve(line, held);
    ::_exit(0);
  }
  if (process_ > 0) {
    channel_ = std::move(ours);
  } else {
    const auto* call = !plan_ ? "memfd_create" : !ours ? "socketpair" : "fork";
    warn("could not be started: " + why_failed(error, call));
  }
}

// Kills a hook that is still running, because dlock exits. A process that has exited may
// have been reaped, and its pid be another's.
StartHook::~StartHook() {
  char word = 0;
  if (!channel_ || is_busy_) return;
  if (::recv(channel_.get(), &word, 1, MSG_PEEK | MSG_DONTWAIT) == 0) return;
  ::kill(process_, SIGKILL);
  reap(process_);
}

void StartHook::warn(const std::string& trouble) const {
  speaker_.warning("the --on-start command " + trouble);
}

// The other process: runs the hook when it is told to. It stays until dlock has exited.
void StartHook::serve(const std::string& line, const HeldSignals& held) const {
  char word = 0;
  if (received(channel_.get(), &word)) {
    auto plan = read_plan(line);
    plan.parent = dlock_;
    const auto end = run_hook(plan, held);
    if (!end.trouble.empty()) warn(end.trouble);
    ::signal(SIGCHLD, SIG_IGN);  // what the hook left behind is reaped by the kernel
    ::send(channel_.get(), "", 1, MSG_NOSIGNAL);
    received(channel_.get(), &word);  // never: dlock's end closes
  }
  ::_exit(0);
}

HookPlan StartHook::read_plan(const std::string& line) const {
  struct stat status {};
  ::fstat(plan_.get(), &status);
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  const auto size = ::pread(plan_.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  HookPlan plan;
  plan.line = line;
  std::size_t at = 0;
  while (at < text.size() && text[at] != '\0') {
    plan.environment.emplace_back(text.c_str() + at);
    at += plan.environment.back().size() + 1;
  }
  plan.input = text.substr(std::min(at + 1, text.size()));
  return plan;
}

void StartHook::start(const std::vector<std::string>& environment,
                      const std::string& input) {
  if (!channel_) return;
  std::string text;
  for (const auto& variable : environment) {
    if (!variable.empty()) text.append(variable) += '\0';
  }
  (text += '\0') += input;
  is_busy_ = write_all(plan_.get(), text) &&
             ::send(channel_.get(), "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
  if (!is_busy_) warn("could not be started: " + std::string(std::strerror(errno)));
}

void StartHook::await_end() {
  if (!is_busy_) return;
  const HookPlan limits;
  pollfd end{channel_.get(), POLLIN, 0};
  // Twice: from TERM to KILL, and for processes that even KILL does not end.
  const auto most = limits.limit + 2 * limits.kill_after;
  if (::poll(&end, 1, static_cast<int>(most.count())) != 1) return;
  is_busy_ = false;
  char word = 0;
  if (!received(channel_.get(), &word)) warn("was killed with the process that ran it");
}

}  // namespace dlock
