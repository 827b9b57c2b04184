#include "cli/run/background_keeper.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cli/args/options.hpp"
#include "lease/holding.hpp"
#include "loop/event_loop.hpp"
#include "util/open_null.hpp"
#include "util/process.hpp"

namespace dlock {
namespace {

// The messages between the two processes, one packet each. A failure is sent as a digit
// for its kind, followed by its message.
constexpr std::string_view granted = "granted";
constexpr std::string_view kept = "+";
constexpr std::string_view stay_word = "stay";

// The pause between attempts to release the lease.
constexpr milliseconds release_retry{500};

// Time for the other process to be scheduled, in addition to the store timeout.
constexpr milliseconds scheduling{3000};

// What the background process gets from its parent.
struct Duty {
  const StoreUrl& store;
  const Claim& claim;
  milliseconds budget;
  Fd channel;
  Fd beneficiary;
};

// Nothing if the other end is closed.
std::optional<std::string> received(int channel) {
  char packet[1024];
  for (;;) {
    const auto size = ::recv(channel, packet, sizeof packet, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return std::nullopt;
    return std::string(packet, static_cast<std::size_t>(size));
  }
}

void tell(int channel, std::string_view packet) {
  while (::send(channel, packet.data(), packet.size(), MSG_NOSIGNAL) < 0 &&
         errno == EINTR) {
  }
}

// The keeper in the background process.
class KeeperProcess {
 public:
  explicit KeeperProcess(Duty duty)
      : duty_(std::move(duty)),
        wakeup_(context_),
        store_(open_store(duty_.store, duty_.budget, context_)),
        lock_(context_, wakeup_, *store_, duty_.claim,
              LeaseTiming(duty_.claim.ttl, {}, duty_.budget)) {}

  void run() {
    run_blocking(context_, [this] { return execute(); });
  }

 private:
  asio::awaitable<void> execute() {
    const auto answer = co_await begin();
    tell(duty_.channel.get(), answer);
    if (answer != kept) co_return;  // the parent releases it
    watch();
    lock_.prepare_to_keep(nullptr);
    lock_.keep();
    while (!lock_.lost() && !is_free_to_go_ && Clock::now() < lock_.grant()->deadline) {
      if (is_told_to_end_) lock_.stop_renewing();
      co_await wakeup_.wait_until(lock_.grant()->deadline);
    }
    co_await lock_.stop_keeping();
    // Unless the lease has certainly ended.
    if (is_free_to_go_ && !lock_.lost()) {
      const std::optional<RunEnd> no_run;  // has to outlive the call
      co_await lock_.release_by(lock_.lease_end(), no_run, release_retry, false);
    }
  }

  // The first renewal, which shows that this process can renew. Returns the message for
  // the parent.
  asio::awaitable<std::string> begin() {
    try {
      if (co_await lock_.take_over() == Renewal::confirmed) co_return std::string(kept);
      co_return std::to_string(static_cast<int>(Failure::Kind::unreachable)) +
          "the lease expired before it could be renewed";
    } catch (const Failure& failure) {
      co_return std::to_string(static_cast<int>(failure.kind())) + failure.what();
    }
  }

  void watch() {
    beneficiary_ =
        std::make_unique<Readable>(context_, std::move(duty_.beneficiary), [this] {
          is_free_to_go_ = true;
          wakeup_.notify();
          beneficiary_.reset();  // it stays readable
        });
    const int channel = duty_.channel.get();
    channel_ =
        std::make_unique<Readable>(context_, std::move(duty_.channel), [this, channel] {
          if (received(channel) != stay_word) {
            is_free_to_go_ = true;
            wakeup_.notify();
          }
          channel_.reset();
        });
    signals_.async_wait([this](boost::system::error_code error, int) {
      if (error) return;
      is_told_to_end_ = true;
      wakeup_.notify();
    });
  }

  Duty duty_;
  EventLoop context_;
  Wakeup wakeup_;
  std::unique_ptr<Store> store_;
  Holding lock_;
  asio::signal_set signals_{context_, SIGTERM, SIGINT, SIGHUP};
  std::unique_ptr<Readable> channel_;
  std::unique_ptr<Readable> beneficiary_;

  bool is_free_to_go_ = false;  // the beneficiary has ended, or did not get the token
  bool is_told_to_end_ = false;
};

// Detaches from the caller's environment, so that nothing waits for a descriptor,
// directory or terminal because of this process.
void detach_from_caller(const Duty& duty) {
  [[maybe_unused]] const int outcome = ::chdir("/");
  const int null = open_null();
  for (int fd = 0; fd <= 2; ++fd) ::dup2(null, fd);
  for (const auto& name : entries_of("/proc/self/fd")) {
    const int fd = std::atoi(name.c_str());
    if (fd > 2 && fd != duty.channel.get() && fd != duty.beneficiary.get()) ::close(fd);
  }
  for (int signal = 1; signal <= SIGRTMAX; ++signal) ::signal(signal, SIG_DFL);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // the limit on file size (ulimit -f) is inherited
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void keep_in_background(Duty duty) {
  detach_from_caller(duty);
  // Opens nothing until there is a lease to keep.
  if (received(duty.channel.get())) {
    try {
      KeeperProcess(std::move(duty)).run();
    } catch (const std::exception&) {
      // There is no process to report to; the lease expires by itself.
    }
  }
  ::_exit(0);
}

}  // namespace

BackgroundKeeper::BackgroundKeeper(pid_t beneficiary, const StoreUrl& store,
                                   const Claim& claim, milliseconds budget)
    : beneficiary_(open_pidfd(beneficiary)), budget_(budget) {
  const auto process = "process " + std::to_string(beneficiary);
  // EINVAL, on newer kernels ENOENT: the pid is that of a thread.
  const bool absent =
      !beneficiary_ && (errno == ESRCH || errno == EINVAL || errno == ENOENT);
  if (absent || (beneficiary_ && dlock::has_ended(beneficiary))) {
    throw UsageError("--for-pid: there is no " + process);
  }

  if (!beneficiary_) {
    throw failure_of_call(errno, "cannot watch " + process, "pidfd_open");
  }
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw failure_of_call(errno, "cannot create a socket", "socketpair");
  }
  channel_ = Fd(ends[0]);
  Fd others(ends[1]);
  const auto failure = [](int error) {
    return Failure::exhausted(std::string("cannot start a process: ") +
                              std::strerror(error));
  };
  const pid_t child = ::fork();
  if (child < 0) throw failure(errno);
  if (child == 0) {
    // Not a session leader, which could acquire a terminal, and not our child, which
    // would stay a zombie if it ended before us.
    ::setsid();
    const pid_t keeper = ::fork();
    if (keeper != 0) ::_exit(keeper < 0 ? errno : 0);
    channel_.reset();
    keep_in_background(
        {store, claim, budget, std::move(others), std::move(beneficiary_)});
  }
  const int status = reap(child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw failure(WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD);
  }
}

std::unique_ptr<Readable> BackgroundKeeper::watch_beneficiary(
    asio::io_context& context, std::function<void()> ended) {
  return std::make_unique<Readable>(context, std::move(beneficiary_), std::move(ended));
}

asio::awaitable<void> BackgroundKeeper::take_over(asio::io_context& context,
                                                  Wakeup& wakeup) {
  tell(channel_.get(), granted);
  std::optional<std::string> answer;
  bool answered = false;
  std::unique_ptr<Readable> reply;
  reply = std::make_unique<Readable>(context, Fd(::dup(channel_.get())), [&] {
    answer = received(channel_.get());
    answered = true;
    reply.reset();
    wakeup.notify();
  });
  const auto give_up_at = later(Clock::now(), budget_ + scheduling);
  while (!answered && !wakeup.gives_up() && Clock::now() < give_up_at) {
    co_await wakeup.wait_until(give_up_at);
  }
  if (answered && answer == kept) co_return;
  if (wakeup.gives_up()) throw Failure::interrupted("interrupted");
  if (!answer || answer->empty()) {
    throw Failure::exhausted("the background process failed");
  }
  throw Failure(static_cast<Failure::Kind>(answer->front() - '0'), answer->substr(1));
}

void BackgroundKeeper::stay() { tell(channel_.get(), stay_word); }

}  // namespace dlock
