#include "cli/terminal/output_queue.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "util/failure.hpp"
#include "util/reopen.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

constexpr std::size_t most_waiting = 4u << 20;

// A writable pipe accepts this much without blocking; a larger write could block. So
// could any write to a terminal, which is therefore opened again, non-blocking.
constexpr std::size_t most_at_once = PIPE_BUF;

}  // namespace

// The descriptor is watched through our own epoll instance. Watching it with Asio would
// set O_NONBLOCK for all processes that share it.
OutputQueue::OutputQueue(boost::asio::io_context& context, int fd,
                         std::function<void(int)> ended)
    : terminal_(::isatty(fd) != 0 ? reopen_to_write(fd) : Fd()),
      fd_(terminal_ ? terminal_.get() : fd),
      ended_(std::move(ended)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw failure_of(errno, "cannot watch standard output");
  epoll_event event{};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd_, &event) != 0) return;
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
  epoll_event told{};
  ::epoll_wait(epoll_.get(), &told, 1, 0);
  while (!lines_.empty() && write_some()) {
  }
  if (has_ended_) return;
  pollfd wanted{fd_, 0, 0};
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
  if (events_) {
    pollfd wanted{fd_, POLLOUT, 0};
    if (::poll(&wanted, 1, 0) <= 0 || (wanted.revents & POLLOUT) == 0) return false;
  }
  auto& line = lines_.front();
  const auto size = std::min(line.size() - written_, most_at_once);
  const auto result = ::write(fd_, line.data() + written_, size);
  if (result < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (result < 0) {
    end(errno);
    return false;
  }
  written_ += static_cast<std::size_t>(result);
  waiting_ -= static_cast<std::size_t>(result);
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
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd_, &event);
}

}  // namespace dlock
