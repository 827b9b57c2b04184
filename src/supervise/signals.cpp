#include "supervise/signals.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "util/failure.hpp"

namespace dlock {
namespace {

// Not blocked at first: they stop us together with the command, as job control expects.
bool is_job_control(int signal) {
  return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t only(int signal) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  return set;
}

}  // namespace

JobPlace place_of(pid_t pid) {
  return {std::max(::getpgid(pid), 0), std::max(::getsid(pid), 0)};
}

bool went_to_group(int signal, bool from_kernel, bool leads_session) {
  switch (signal) {
    case SIGTSTP: return true;
    case SIGINT:
    case SIGQUIT:
    case SIGWINCH: return from_kernel;
    case SIGHUP:
    case SIGCONT: return from_kernel && !leads_session;
    default: return false;
  }
}

int passed_on(int signal, bool reached_group, JobPlace dlock, JobPlace command) {
  if (!reached_group) return signal;
  if (command.group == dlock.group) return 0;
  if (signal != SIGTSTP) return signal;
  if (dlock.group == dlock.session) return 0;
  return command.session == dlock.session ? SIGTSTP : SIGSTOP;
}

bool ends_by_default(int signal) {
  switch (signal) {
    case SIGCHLD:
    case SIGCONT:
    case SIGURG:
    case SIGWINCH: return false;
    default: return !is_job_control(signal) && signal != SIGSTOP;
  }
}

bool asks_to_end(int signal) {
  return signal == SIGHUP || signal == SIGINT || signal == SIGQUIT || signal == SIGTERM;
}

std::string signal_name(int signal) {
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) {
    return "RTMIN+" + std::to_string(signal - SIGRTMIN);
  }
  // Not sigabbrev_np(), which the C library has only since 2.32, as an extension.
  constexpr const char* names[] = {
      "0",      "HUP",  "INT",    "QUIT", "ILL",   "TRAP", "ABRT", "BUS",
      "FPE",    "KILL", "USR1",   "SEGV", "USR2",  "PIPE", "ALRM", "TERM",
      "STKFLT", "CHLD", "CONT",   "STOP", "TSTP",  "TTIN", "TTOU", "URG",
      "XCPU",   "XFSZ", "VTALRM", "PROF", "WINCH", "IO",   "PWR",  "SYS"};
  return signal >= 0 && signal < 32 ? names[signal] : std::to_string(signal);
}

std::optional<int> signal_named(const std::string& name) {
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    if (signal_name(signal) == name) return signal;
  }
  return std::nullopt;
}

HeldSignals::HeldSignals() {
  ::sigemptyset(&held_);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    // The C library uses 32 and 33 itself.
    if (signal == SIGKILL || signal == SIGSTOP || is_job_control(signal) ||
        (signal > 31 && signal < SIGRTMIN)) {
      continue;
    }
    ::sigaddset(&held_, signal);
  }
  // Otherwise the kernel would reap our children, and their exit codes would be lost.
  inherited_.child_ignored = is_ignored(SIGCHLD);
  if (inherited_.child_ignored) ::signal(SIGCHLD, SIG_DFL);

  // Our own fault still kills us: the kernel does not block it.
  ::sigprocmask(SIG_BLOCK, &held_, &inherited_.mask);
}

sigset_t HeldSignals::let_through_now() const {
  sigset_t through;
  ::sigemptyset(&through);
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
    if (::sigismember(&inherited_.mask, signal) == 0) ::sigaddset(&through, signal);
  }
  const timespec at_once{};
  while (::sigtimedwait(&through, nullptr, &at_once) > 0) {
  }
  ::sigprocmask(SIG_UNBLOCK, &through, nullptr);
  return through;
}

SignalInbox::SignalInbox(asio::io_context& context, Wakeup& wakeup,
                         const HeldSignals& held)
    : wakeup_(wakeup), inherited_(held.inherited()) {
  auto wanted = held.held();
  ::sigaddset(&wanted, SIGTSTP);  // see hold_stops()
  Fd fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) throw failure_of_call(errno, "cannot receive signals", "signalfd4");
  readable_.emplace(context, std::move(fd), [this] {
    drain();
    wakeup_.notify();
  });
}

void SignalInbox::drain() {
  signalfd_siginfo info[8];
  for (;;) {
    const auto size = ::read(readable_->fd(), info, sizeof info);
    if (size <= 0) return;
    const auto count = static_cast<std::size_t>(size) / sizeof info[0];
    for (std::size_t i = 0; i < count; ++i) {
      const auto number = static_cast<int>(info[i].ssi_signo);
      // Checked when a signal arrives, instead of for sixty signals at every start.
      if (number == SIGCHLD || number == SIGURG || is_ignored(number)) continue;
      // dlock handles a write to a closed pipe or beyond a limit as an ordinary error.
      const bool own = info[i].ssi_pid == static_cast<std::uint32_t>(::getpid());
      if (own && (number == SIGPIPE || number == SIGXFSZ)) continue;
      if (asks_to_end(number)) {
        told_to_end_ = true;
        if (told_) told_(number);
      }
      if (number == SIGCONT) was_continued_ = true;
      const bool from_kernel = info[i].ssi_code == SI_KERNEL;
      const bool leads_session = from_kernel && ::getsid(0) == ::getpid();
      queue_.push_back({number, went_to_group(number, from_kernel, leads_session)});
      if (gives_up_ && ends_by_default(number)) wakeup_.give_up(true);
    }
  }
}

void SignalInbox::give_up_waiting(bool wanted) {
  gives_up_ = wanted;
  wakeup_.give_up(false);
  if (!wanted) return;
  drain();
  for (const auto& signal : queue_) {
    if (ends_by_default(signal.number)) wakeup_.give_up(true);
  }
}

bool SignalInbox::block_stops() {
  const auto stop = only(SIGTSTP);
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &stop, &before);
  return ::sigismember(&before, SIGTSTP) == 0;
}

void SignalInbox::unblock_stops() {
  const auto stop = only(SIGTSTP);
  ::sigprocmask(SIG_UNBLOCK, &stop, nullptr);
}

void SignalInbox::stop_here() {
  const auto stop = only(SIGTSTP);
  sigset_t before;
  ::raise(SIGTSTP);
  ::sigprocmask(SIG_UNBLOCK, &stop, &before);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

std::optional<Signal> SignalInbox::next() {
  if (queue_.empty()) drain();
  if (queue_.empty()) return std::nullopt;
  const auto signal = queue_.front();
  queue_.pop_front();
  return signal;
}

std::optional<int> SignalInbox::next_ending() {
  while (const auto signal = next()) {
    if (ends_by_default(signal->number)) return signal->number;
  }
  return std::nullopt;
}

SizeLimitIgnored::SizeLimitIgnored() : before_(::signal(SIGXFSZ, SIG_IGN)) {}

SizeLimitIgnored::~SizeLimitIgnored() { ::signal(SIGXFSZ, before_); }

void die_by(int signal) {
  // Ours would overwrite the command's core file, which is the one that matters.
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::prctl(PR_SET_DUMPABLE, 0);
  ::signal(signal, SIG_DFL);
  const auto set = only(signal);
  ::raise(signal);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::_exit(128 + signal);
}

}  // namespace dlock
