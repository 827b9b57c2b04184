#include "store/local/map_faults.hpp"

#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>

#include "util/bounded_write.hpp"
#include "util/journal.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

// Written before the handler is installed, read by it alone.
struct FaultMessage {
  char text[512];
  std::size_t length = 0;

  void set(const std::string& line) {
    length = std::min(line.size(), sizeof text);
    std::memcpy(text, line.data(), length);
  }
  [[noreturn]] void tell() const {
    write_within(STDERR_FILENO, {text, length}, std::chrono::milliseconds(0));
    ::_exit(78);
  }
};
FaultMessage cut_message;
FaultMessage damaged_message;

volatile std::sig_atomic_t transactions_at_work = 0;

sigset_t set_of(int signal) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  return set;
}

extern "C" void on_fault(int signal, siginfo_t* info, void* context) {
  if (info->si_code <= 0) {
    // Somebody sent it. It is not ours to die of: blocked from the return on, and sent
    // once more, it waits for whoever reads signals as they come.
    ::sigaddset(&static_cast<ucontext_t*>(context)->uc_sigmask, signal);
    const auto set = set_of(signal);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    ::kill(::getpid(), signal);
    return;
  }
  if (signal == SIGBUS) cut_message.tell();
  if (transactions_at_work > 0) damaged_message.tell();
  ::signal(signal, SIG_DFL);  // a bug of our own: the same instruction ends us
}

void tell_of(int signal) {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(signal, &action, nullptr);
  // A handler is of no use to a fault while its signal is blocked.
  const auto set = set_of(signal);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace

LmdbAtWork::LmdbAtWork() { transactions_at_work = transactions_at_work + 1; }
LmdbAtWork::~LmdbAtWork() { transactions_at_work = transactions_at_work - 1; }

void end_by_damage() { damaged_message.tell(); }

void say_when_the_map_breaks(const std::string& path) {
  const auto name = line_start(Priority::error) + "dlock: " + printable(path, 300);
  cut_message.set(name + " was cut while in use\n");
  damaged_message.set(name +
                      " is damaged; move it away once no command runs under its locks\n");
  tell_of(SIGBUS);
  tell_of(SIGSEGV);
}

}  // namespace dlock::local
