#include "net/budget.hpp"

#include <poll.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstring>
#include <utility>

#include "util/bits.hpp"
#include "util/text.hpp"

namespace dlock::net {

std::string lower_first(std::string reason) {
  const auto is_between = [](char c, char first, char last) {
    return c >= first && c <= last;
  };
  // Abbreviations keep their capitals: "RPC struct is bad".
  if (reason.size() > 1 && is_between(reason[0], 'A', 'Z') &&
      !is_between(reason[1], 'A', 'Z')) {
    reason[0] = static_cast<char>(reason[0] - 'A' + 'a');
  }
  return reason;
}

std::string reason_of(int error_number) {
  return lower_first(std::strerror(error_number));
}

std::string kind_of_server(std::string_view first_bytes) {
  struct Greeting {
    std::string_view bytes;
    std::string_view kind;
  };
  using namespace std::string_view_literals;
  constexpr Greeting greetings[] = {
      {"HTTP/"sv, "it looks like an HTTP server"},
      {"<"sv, "it looks like an HTTP server"},
      {"SSH-"sv, "it looks like an SSH server"},
      {"220"sv, "it looks like a mail or FTP server"},
      {"421"sv, "it looks like a mail or FTP server"},
      {"554"sv, "it looks like a mail or FTP server"},
      {"ERROR\r\n"sv, "it looks like memcached"},
      {"RFB "sv, "it looks like a VNC server"},
      {"AMQP"sv, "it looks like an AMQP server"},
      {"\x15\x03"sv, "it requires TLS"},
      {"\0\0\x06\x04"sv, "it looks like etcd or another HTTP/2 server"},
      {"\0\0\x0c\x04"sv, "it looks like etcd or another HTTP/2 server"},
      {"\0\0\x12\x04"sv, "it looks like etcd or another HTTP/2 server"},
      {"\0\0\x18\x04"sv, "it looks like etcd or another HTTP/2 server"},
      {"RCmb"sv, "it looks like the cluster bus of Redis: use the port of clients"},
      {"-ERR"sv, "it looks like a Redis server"},
      {"-DENIED"sv, "it looks like a Redis server"},
      {"-NOAUTH"sv, "it looks like a Redis server"},
  };
  for (const auto& [bytes, kind] : greetings) {
    if (first_bytes.starts_with(bytes)) return "; " + std::string(kind);
  }
  return "";
}

Failure with_tls_hint(const Failure& failure, const std::string& scheme) {
  if (is_slow(failure)) return failure;
  return Failure(failure.kind(),
                 std::string(failure.what()) + "; does it require TLS (" + scheme + ")?");
}

Failure cannot_reach(const std::string& server, const std::string& why) {
  return Failure::unreachable("cannot reach " + server + ": " + why);
}

milliseconds patience_with(const Failure& failure, milliseconds timeout) {
  const auto* refusal = dynamic_cast<const Refusal*>(&failure);
  if (refusal == nullptr) return milliseconds(0);
  return refusal->reason() == Refusal::Reason::overloaded ? timeout : timeout / 4;
}

void Attempts::note(const Failure& failure, const Failure& reported) {
  const bool timed_out =
      dynamic_cast<const Timeout*>(&failure) != nullptr || call_.is_over();
  const bool says_less = timed_out && failure.kind() == Failure::Kind::unreachable;
  if (!reason_ || !says_less) reason_ = reported;
}

Clock::time_point Attempts::end_of_patience(const Failure& failure) const {
  return std::min(call_.until, later(began_, patience_with(failure, timeout_)));
}

asio::awaitable<bool> Attempts::pause(Clock::time_point end) {
  const auto next = later(Clock::now(), next_pause());
  auto& wakeup = call_.wakeup;
  if (next >= end || wakeup.gives_up()) co_return false;
  bool was_notified = false;
  while (!wakeup.gives_up() && Clock::now() < next) {
    co_await wakeup.wait_until(next);
    was_notified = was_notified || Clock::now() < next;
  }
  if (was_notified) wakeup.notify();
  co_return true;
}

milliseconds Attempts::next_pause() {
  const auto half = longest_.next() / 2;
  return half + milliseconds(random_up_to(static_cast<std::uint64_t>(half.count())));
}

asio::awaitable<bool> Budget::wait(std::function<bool()> is_true,
                                   Clock::time_point moment) {
  const auto end = std::min(moment, call_.until);
  while (!is_true()) {
    if (call_.wakeup.gives_up()) throw given_up();
    if (Clock::now() >= end) co_return false;
    co_await call_.wakeup.wait_until(end);
    // The event has been recorded where it belongs, and its reader checks there before it
    // sleeps. But the reader must not miss the notification.
    if (!is_true() && Clock::now() < end) woken_for_others_ = true;
  }
  co_return true;
}

void Budget::check() const {
  if (call_.wakeup.gives_up()) throw given_up();
  if (is_over()) throw timeout(server_);
}

Timeout Budget::timeout(const std::string& who) const {
  // Rounded, because the budget was computed a moment before.
  const auto budget = std::chrono::round<std::chrono::duration<long long, std::centi>>(
      std::max(call_.until - began_, Clock::duration::zero()));
  // Earlier exchanges of the same operation may have used all of it.
  const bool had_time = budget.count() > 0;
  auto text =
      who + " did not reply " + (had_time ? "within " + for_people(budget) : "in time");
  if (!is_slow_) return Timeout(text);
  return Timeout(
      text + ", " + progress_ +
          ": if it is far away or busy, give it more time with --store-timeout",
      true);
}

void Budget::reached(std::string_view what) {
  if (std::exchange(last_reached_, what) == what) return;
  const auto took = Clock::now() - began_;
  // A server that is near does so much sooner.
  is_slow_ = is_slow_ || took > (call_.until - began_) / 10;
  progress_ +=
      (progress_.empty() ? "" : ", ") + std::string(what) + " after " +
      for_people(std::chrono::round<std::chrono::duration<long long, std::centi>>(took));
}

Budget::~Budget() {
  if (woken_for_others_) call_.wakeup.notify();
}

Failure Budget::given_up() const {
  return Failure::interrupted(server_ + ": interrupted");
}

using boost::asio::posix::stream_descriptor;

struct Readiness::Watch {
  enum class State { idle, asked, came };

  Watch(asio::io_context& context, int fd) : descriptor(context) {
    boost::system::error_code error;
    descriptor.assign(fd, error);
    // Asio would do this at the first wait, and report a failure only then.
    if (!error) descriptor.native_non_blocking(true, error);
    if (error) {
      descriptor.release();  // the owner closes it
      throw failure_of_call(error.value(), "cannot watch a socket", "epoll_ctl or ioctl");
    }
  }

  State& state(For what) { return what == For::reading ? reading : writing; }
  Wakeup*& asker(For what) { return what == For::reading ? reader : writer; }

  stream_descriptor descriptor;
  State reading = State::idle;
  State writing = State::idle;
  Wakeup* reader = nullptr;
  Wakeup* writer = nullptr;
  bool is_wanted = true;
};

Readiness::Readiness(asio::io_context& context, int fd)
    : watch_(std::make_shared<Watch>(context, fd)) {}

// A completed wait may already be queued. It still shares the watch, and finds that no
// coroutine is interested.
Readiness::~Readiness() {
  watch_->is_wanted = false;
  watch_->descriptor.release();
}

void Readiness::ask(For what, Wakeup& wakeup) {
  watch_->asker(what) = &wakeup;
  auto& state = watch_->state(what);
  if (state == Watch::State::asked) return;
  state = Watch::State::asked;
  watch_->descriptor.async_wait(
      what == For::reading ? stream_descriptor::wait_read : stream_descriptor::wait_write,
      [watch = watch_, what](boost::system::error_code) {
        if (!watch->is_wanted) return;
        // Even after an error: the next read or write reports it.
        watch->state(what) = Watch::State::came;
        if (watch->asker(what) != nullptr) watch->asker(what)->notify();
      });
}

Readiness::Question::Question(Readiness& readiness, For what, Wakeup& wakeup)
    : watch_(readiness.watch_), what_(what), wakeup_(&wakeup) {
  readiness.ask(what, wakeup);
}

Readiness::Question::~Question() {
  const auto watch = watch_.lock();
  if (watch && watch->asker(what_) == wakeup_) watch->asker(what_) = nullptr;
}

bool Readiness::came(For what) const { return watch_->state(what) == Watch::State::came; }

bool is_ready_soon(int fd, Readiness::For what) {
  constexpr int soon_ms = 1;
  pollfd wanted{
      fd, static_cast<short>(what == Readiness::For::reading ? POLLIN : POLLOUT), 0};
  return ::poll(&wanted, 1, soon_ms) > 0;
}

}  // namespace dlock::net
