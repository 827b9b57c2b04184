#include "cli/terminal/slow_output.hpp"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Opens the pipe or the terminal of a descriptor once more, non-blocking and for writing.
Fd reopen_to_write(int fd) {
  // To open the master of a terminal creates another terminal.
  int number = 0;
  if (::ioctl(fd, TIOCGPTN, &number) == 0) return Fd();
  char path[32] = "/proc/self/fd/";
  decimal(fd, {path + std::strlen(path), std::end(path) - 1});
  return Fd(::open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

}  // namespace

SlowWriter::SlowWriter(int fd) : fd_(fd), kind_(kind_of(fd)) {
  if (kind_ == Kind::pipe || kind_ == Kind::terminal) own_ = reopen_to_write(fd);
}

SlowWriter::Kind SlowWriter::kind_of(int fd) {
  struct stat status {};
  const bool is_known = ::fstat(fd, &status) == 0;
  if (is_known && S_ISSOCK(status.st_mode)) return Kind::socket;
  if (is_known && S_ISFIFO(status.st_mode)) return Kind::pipe;
  return ::isatty(fd) != 0 ? Kind::terminal : Kind::other;
}

ssize_t SlowWriter::write_some(std::string_view bytes, milliseconds patience) {
  ssize_t size = 0;
  if (can_block()) {
    pollfd wanted{fd(), POLLOUT, 0};
    const auto most = std::max(patience, milliseconds(0)).count();
    const int ready = ::poll(&wanted, 1, static_cast<int>(most));
    if (ready == 0) return 0;
    if (ready < 0) return errno == EINTR ? 0 : -1;
    if ((wanted.revents & POLLOUT) == 0) {
      errno = EPIPE;  // full, and the reader has closed it
      return -1;
    }
    // A writable pipe has room for this much, unless another process fills it first. A
    // terminal may have less.
    bytes = bytes.substr(0, PIPE_BUF);
  }
  size = kind_ == Kind::socket ? ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT)
                               : ::write(fd(), bytes.data(), bytes.size());
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  return size == 0 && !bytes.empty() ? -1 : size;
}

bool write_within(int fd, std::string_view text, milliseconds patience) {
  SlowWriter writer(fd);
  if (!writer.can_block()) return write_all(fd, text);
  const auto until = steady_clock::now() + patience;
  while (!text.empty()) {
    const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
    const auto size = writer.write_some(text, left);
    if (size < 0) return false;
    if (size == 0 && steady_clock::now() >= until) {
      errno = EAGAIN;
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

namespace {

// How much may wait for the reader of a queue.
constexpr std::size_t most_waiting = 4u << 20;

}  // namespace

Fd new_epoll(const std::string& what) {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) throw failure_of_call(errno, what, "epoll_create1");
  return epoll;
}

CommandPipe::CommandPipe(int epoll) : epoll_(epoll) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw failure_of_call(errno, "cannot create a pipe", "pipe2");
  }
  reading_ = Fd(ends[0]);
  writing_ = Fd(ends[1]);
  // Not the command's end, because the command would inherit the flag with its output.
  ::fcntl(reading_.get(), F_SETFL, O_NONBLOCK);
  epoll_event nothing_yet{EPOLLONESHOT, {}};
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, ends[0], &nothing_yet) != 0) {
    throw failure_of_call(errno, "cannot watch a pipe", "epoll_ctl");
  }
}

void CommandPipe::wait_for_bytes() {
  if (!is_open()) return;
  epoll_event event{EPOLLONESHOT | EPOLLIN, {}};
  event.data.fd = reading_.get();
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, reading_.get(), &event);
}

void CommandPipe::read(std::size_t most, const Take& take) {
  std::array<char, block> buffer;
  while (is_open() && most > 0) {
    const auto size =
        ::read(reading_.get(), buffer.data(), std::min(buffer.size(), most));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return;
    if (size == 0) return close();  // every writer has closed the pipe
    take({buffer.data(), static_cast<std::size_t>(size)});
    most -= static_cast<std::size_t>(size);
  }
}

void CommandPipe::read_rest(const Take& take) {
  close_writing_end();
  int waiting = 0;
  if (is_open() && ::ioctl(reading_.get(), FIONREAD, &waiting) == 0 && waiting > 0) {
    read(static_cast<std::size_t>(waiting), take);
  }
  close();
}

// It is removed from epoll before it is closed, because the guardian may have the
// descriptor as well.
void CommandPipe::close() {
  if (!is_open()) return;
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, reading_.get(), nullptr);
  reading_.reset();
}

// The descriptor is watched through our own epoll instance. Watching it with Asio would
// set O_NONBLOCK for all processes that share it.
OutputQueue::OutputQueue(boost::asio::io_context& context, int fd,
                         std::function<void(int)> ended)
    : writer_(fd),
      ended_(std::move(ended)),
      epoll_(new_epoll("cannot watch standard output")) {
  epoll_event event{};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, writer_.fd(), &event) != 0) return;
  Fd shared(::fcntl(epoll_.get(), F_DUPFD_CLOEXEC, 3));
  if (!shared) throw failure_of(errno, "cannot watch standard output");
  events_.emplace(context, std::move(shared), [this] { write_available(); });
}

bool OutputQueue::push(std::string line) {
  if (has_ended_) return true;
  if (!has_room()) return false;
  waiting_ += line.size();
  lines_.push_back(std::move(line));
  if (!asked_for_room_) write_available();
  return true;
}

bool OutputQueue::has_room() const { return waiting_ <= most_waiting; }

void OutputQueue::write_available() {
  // The event is cleared, or it would be reported forever.
  epoll_event event{};
  ::epoll_wait(epoll_.get(), &event, 1, 0);
  while (!lines_.empty() && write_some()) {
  }
  if (has_ended_) return;
  pollfd wanted{writer_.fd(), 0, 0};
  const bool is_gone =
      events_ && ::poll(&wanted, 1, 0) > 0 && (wanted.revents & (POLLERR | POLLHUP)) != 0;
  if (is_gone) return end(0);
  ask(!lines_.empty());
}

void OutputQueue::end(int error) {
  has_ended_ = true;
  lines_.clear();
  events_.reset();
  ended_(error);
}

// Returns whether more might be written at once.
bool OutputQueue::write_some() {
  auto& line = lines_.front();
  const auto size = writer_.write_some(std::string_view(line).substr(written_),
                                       events_ ? milliseconds(0) : unwatched_wait);
  if (size < 0) end(errno == EPIPE ? 0 : errno);  // the reader has closed it
  if (size < 0) return false;
  if (size == 0) return !events_;
  written_ += static_cast<std::size_t>(size);
  waiting_ -= static_cast<std::size_t>(size);
  if (written_ < line.size()) return true;
  lines_.pop_front();
  written_ = 0;
  return true;
}

void OutputQueue::ask(bool for_room) {
  if (!events_ || for_room == asked_for_room_) return;
  asked_for_room_ = for_room;
  epoll_event event{};
  event.events =
      for_room ? static_cast<unsigned>(EPOLLOUT) : 0u;  // errors are reported in any case
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, writer_.fd(), &event);
}

}  // namespace dlock
