#include "loop/readable.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <utility>

#include "util/failure.hpp"

namespace dlock {

using boost::asio::posix::stream_descriptor;

struct Readable::Watch {
  Watch(boost::asio::io_context& context, Fd fd, std::function<void()> callback,
        PauseAfterCall pause_after_call)
      : descriptor(context),
        happened(std::move(callback)),
        pause(std::move(pause_after_call)) {
    boost::system::error_code error;
    descriptor.assign(fd.get(), error);
    // Asio would do this at the first wait, and report a failure only then.
    if (!error) descriptor.native_non_blocking(true, error);
    if (error)
      throw failure_of_call(error.value(), "cannot watch a descriptor",
                            "epoll_ctl or ioctl");
    fd.release();
  }

  stream_descriptor descriptor;
  std::function<void()> happened;
  PauseAfterCall pause;
  std::optional<boost::asio::steady_timer> pausing;
};

Readable::Readable(boost::asio::io_context& context, Fd fd,
                   std::function<void()> happened, PauseAfterCall pause)
    : watch_(std::make_shared<Watch>(context, std::move(fd), std::move(happened),
                                     std::move(pause))) {
  listen(watch_);
}

// A completed wait may be queued behind the handler that destroys this object. It still
// shares the watch, and finds no callback.
Readable::~Readable() {
  watch_->happened = nullptr;
  watch_->pausing.reset();
  watch_->descriptor.close();
}

int Readable::fd() const { return watch_->descriptor.native_handle(); }

void Readable::listen(const std::shared_ptr<Watch>& watch) {
  watch->descriptor.async_wait(stream_descriptor::wait_read,
                               [watch](boost::system::error_code error) {
                                 if (error || !watch->happened) return;
                                 // A copy: the callback may destroy the original.
                                 const auto happened = watch->happened;
                                 happened();
                                 if (watch->happened) listen_again(watch);
                               });
}

void Readable::listen_again(const std::shared_ptr<Watch>& watch) {
  const auto span = watch->pause ? watch->pause() : std::chrono::milliseconds(0);
  if (span.count() == 0) return listen(watch);
  watch->pausing.emplace(watch->descriptor.get_executor(), span);
  watch->pausing->async_wait([watch](boost::system::error_code error) {
    if (!error && watch->happened) listen(watch);
  });
}

}  // namespace dlock
