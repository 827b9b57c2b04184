#include "cli/run/run_output.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "cli/terminal/bounded_output.hpp"
#include "cli/terminal/slow_output.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"
#include "util/path_trust.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// How long to wait for a reader that accepts nothing.
constexpr milliseconds patience_for_printing{60'000};

// The same for a report. The limit ensures that a pipe without a reader does not block
// dlock.
constexpr milliseconds patience_for_reader{5000};

// How much is printed before the wait for the reader counts anew.
constexpr std::size_t print_at_once = 1024;

// How much is read before other events get their turn.
constexpr std::size_t read_at_once = 16 * CommandPipe::block;

Fd opened_output(const std::string& path) {
  Fd file =
      open_to_write(path, "cannot write the output to " + printable(path), O_APPEND);
  // It was opened non-blocking so that a FIFO without a reader is an error.
  ::fcntl(file.get(), F_SETFL, O_APPEND);
  return file;
}

// --output FILE: the command writes to the file itself.
class OutputFile final : public OutputCapture {
 public:
  OutputFile(const std::string& path, const Speaker& speaker)
      : path_(path),
        speaker_(speaker),
        file_(opened_output(path)),
        own_("/proc/" + std::to_string(::getpid()) + "/fd/" +
             std::to_string(file_.get())) {}

  CommandStreams streams() const override {
    return {file_.get(), file_.get(), {-1, -1}, is_reopened() ? own_.c_str() : nullptr};
  }

  // A log may have been rotated while dlock waited for the lock.
  void command_starts(asio::io_context&) override {
    struct stat opened {};
    struct stat there {};
    const bool is_file = ::fstat(file_.get(), &opened) == 0 && S_ISREG(opened.st_mode);
    const bool is_there = ::stat(path_.c_str(), &there) == 0 &&
                          there.st_dev == opened.st_dev && there.st_ino == opened.st_ino;
    try {
      if (is_file && !is_there) open_again();
    } catch (const Failure& failure) {
      speaker_.warning(
          std::string(failure.what()) +
          "; the output goes to the file of that name that was opened first, "
          "before it was renamed or removed");
    }
    begin_ = std::max<off_t>(size(), 0);
  }

  std::optional<std::string> last_lines() const override {
    const auto end = size();
    if (end < 0) return std::nullopt;
    const auto path = "/proc/self/fd/" + std::to_string(file_.get());
    const Fd reading(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    // Less than at the start: another program has emptied it.
    const auto begin = end < begin_ ? 0 : begin_;
    constexpr off_t wanted = BoundedOutput::recent_least;
    const auto from = std::max(begin, end - wanted);
    std::string text(static_cast<std::size_t>(end - from), '\0');
    const auto got =
        reading ? ::pread(reading.get(), text.data(), text.size(), from) : -1;
    if (got < 0) return std::nullopt;
    text.resize(static_cast<std::size_t>(got));
    return dlock::last_lines(text, from > begin);
  }

 private:
  // -1 if it is no regular file.
  off_t size() const {
    struct stat status {};
    const bool is_file = ::fstat(file_.get(), &status) == 0 && S_ISREG(status.st_mode);
    return is_file ? status.st_size : -1;
  }

  bool is_reopened() const { return is_shown_ && size() >= 0; }

  // With the same number, which other processes know.
  void open_again() {
    const auto fresh = is_shown_ ? opened_output(path_) : Fd();
    if (fresh && ::dup3(fresh.get(), file_.get(), O_CLOEXEC) >= 0) return;
    throw failure_of_named(is_shown_ ? errno : EACCES,
                           "cannot open " + printable(path_) + " again");
  }

  std::string path_;
  Speaker speaker_;
  Fd file_;
  std::string own_;  // how other processes open the same file
  // Whether they may: the kernel refuses it if only root may look at this process,
  // for example because its program can be executed and not read.
  bool is_shown_ = ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1 || ::geteuid() == 0;
  off_t begin_ = 0;  // what others have written before
};

bool are_the_same(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// --output on-failure: pipes that dlock reads, one if both streams go to the same place,
// because only then their order is certain.
class KeptOutput final : public OutputCapture {
 public:
  explicit KeptOutput(std::size_t most)
      : kept_(most), epoll_(new_epoll("cannot watch a pipe")) {
    pipes_[0].emplace(epoll_.get());
    if (!are_the_same(STDOUT_FILENO, STDERR_FILENO)) pipes_[1].emplace(epoll_.get());
  }

  CommandStreams streams() const override {
    const int output = pipes_[0]->writing_end();
    if (!pipes_[1]) return {output, output, {pipes_[0]->reading_end(), -1}};
    return {output,
            pipes_[1]->writing_end(),
            {pipes_[0]->reading_end(), pipes_[1]->reading_end()}};
  }

  void command_starts(asio::io_context& context) override {
    poll_.emplace(context, std::move(epoll_), [this] { look(); });
  }

  void command_runs() override {
    for (auto& pipe : pipes_) {
      if (!pipe) continue;
      pipe->close_writing_end();
      pipe->wait_for_bytes();
    }
  }

  void command_ended() override {
    if (poll_) look();
    for (std::size_t i = 0; i < pipes_.size(); ++i) {
      if (pipes_[i]) pipes_[i]->read_rest([&](auto bytes) { keep(i, bytes); });
    }
    poll_.reset();
  }

  std::optional<std::string> last_lines() const override { return kept_.last_lines(); }

  void print(const Speaker& speaker) const override {
    std::array<bool, 2> ended{};
    int error = 0;
    const auto write = [&](Stream stream, std::string_view bytes) {
      const bool to_error = stream == Stream::error;
      auto& has_ended = ended.at(to_error ? 1 : 0);
      while (!bytes.empty() && !has_ended) {
        const auto part = bytes.substr(0, print_at_once);
        const int fd = to_error ? STDERR_FILENO : STDOUT_FILENO;
        has_ended = !write_within(fd, part, patience_for_printing);
        // A reader that has exited (`| head`) does not want the rest.
        if (has_ended && errno != EPIPE) error = errno;
        bytes.remove_prefix(part.size());
      }
    };
    kept_.replay(write, [&] {
      const auto why = kept_.error() == 0
                           ? std::string("--keep-output")
                           : "cannot keep them in " + printable(Spool::directory()) +
                                 ": " + std::string(std::strerror(kept_.error()));
      speaker.error("left out " + std::to_string(kept_.left_out()) +
                    " bytes of the command's output here (" + why + ")");
    });
    if (error == 0) return;
    speaker.error("cannot print the command's output: " +
                  (error == EAGAIN ? std::string("its reader accepts nothing")
                                   : std::string(std::strerror(error))));
  }

 private:
  using Stream = BoundedOutput::Stream;

  // In the order in which they became readable, as far as the kernel tells.
  void look() {
    std::array<epoll_event, 2> events{};
    const int ready =
        ::epoll_wait(poll_->fd(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < ready; ++i) {
      const auto fd = events[static_cast<std::size_t>(i)].data.fd;
      const std::size_t pipe = pipes_[1] && pipes_[1]->reading_end() == fd ? 1 : 0;
      pipes_[pipe]->read(read_at_once, [&](auto bytes) { keep(pipe, bytes); });
      pipes_[pipe]->wait_for_bytes();
    }
  }

  void keep(std::size_t pipe, std::string_view bytes) {
    kept_.add(pipe == 0 ? Stream::output : Stream::error, bytes);
  }

  BoundedOutput kept_;
  Fd epoll_;  // see CommandPipe
  std::array<std::optional<CommandPipe>, 2> pipes_;
  std::optional<Readable> poll_;
};

}  // namespace

std::unique_ptr<OutputCapture> output_for(const RunOptions& options,
                                          const Speaker& speaker) {
  const auto& choice = options.output;
  if (choice.on_failure) return std::make_unique<KeptOutput>(options.keep_output);
  return std::make_unique<OutputFile>(choice.file, speaker);
}

ReportFile::ReportFile(const std::string& path) {
  if (path == "-") {
    is_standard_error_ = true;
    return;
  }
  file_ = open_to_write(path, "cannot write the report to " + printable(path));
}

bool ReportFile::write(const std::string& line, int output) {
  if (is_standard_error_) return write_within(STDERR_FILENO, line, patience_for_reader);
  struct stat status {};
  if (::fstat(file_.get(), &status) == 0 && S_ISREG(status.st_mode)) {
    if (are_the_same(file_.get(), output) || are_the_same(file_.get(), STDOUT_FILENO) ||
        are_the_same(file_.get(), STDERR_FILENO)) {
      ::lseek(file_.get(), 0, SEEK_END);
    } else if (::ftruncate(file_.get(), 0) != 0) {
      return false;  // only now, so that the old report stays until there is a new one
    }
  }
  return write_within(file_.get(), line, patience_for_reader);
}

}  // namespace dlock
