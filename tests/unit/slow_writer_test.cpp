// Writes to pipes and sockets, which can be full, and to files, which cannot.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <future>
#include <string>

#include "cli/terminal/slow_output.hpp"
#include "util/fd.hpp"

namespace dlock {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds no_time{0};
constexpr milliseconds much_time{10'000};

struct Ends {
  Fd in;
  Fd out;
};

Ends made_pipe() {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  return {Fd(ends[1]), Fd(ends[0])};
}

Ends made_sockets() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  return {Fd(ends[1]), Fd(ends[0])};
}

void fill(const Ends& ends) {
  const std::string some(PIPE_BUF, 'x');
  while (write_within(ends.in.get(), some, no_time)) {
  }
}

// Reads to the end.
std::string all_of(int fd) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const auto size = ::read(fd, buffer, sizeof buffer);
    if (size <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(size));
  }
}

class BoundedWrite : public testing::TestWithParam<Ends (*)()> {};

TEST_P(BoundedWrite, writes_at_once_if_there_is_room) {
  auto ends = GetParam()();

  EXPECT_TRUE(write_within(ends.in.get(), "text", no_time));

  ends.in.reset();
  EXPECT_EQ(all_of(ends.out.get()), "text");
}

TEST_P(BoundedWrite, gives_up_if_nobody_reads) {
  const auto ends = GetParam()();
  fill(ends);
  const auto begin = steady_clock::now();

  EXPECT_FALSE(write_within(ends.in.get(), "text", milliseconds(50)));

  EXPECT_EQ(errno, EAGAIN);
  EXPECT_GE(steady_clock::now() - begin, milliseconds(50));
  EXPECT_LT(steady_clock::now() - begin, milliseconds(5'000));
}

TEST_P(BoundedWrite, writes_everything_if_it_is_read_in_time) {
  auto ends = GetParam()();
  const std::string text(1'000'000, 'x');
  auto read =
      std::async(std::launch::async, [fd = ends.out.get()] { return all_of(fd); });

  EXPECT_TRUE(write_within(ends.in.get(), text, much_time));

  ends.in.reset();
  EXPECT_EQ(read.get(), text);
}

TEST_P(BoundedWrite, leaves_the_descriptor_in_blocking_mode) {
  const auto ends = GetParam()();
  fill(ends);

  EXPECT_EQ(::fcntl(ends.in.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_P(BoundedWrite, writes_as_much_as_fits_and_says_when_nothing_does) {
  const auto ends = GetParam()();
  SlowWriter writer(ends.in.get());
  const std::string much(10'000'000, 'x');
  std::size_t written = 0;
  for (ssize_t size = 1; size > 0; written += static_cast<std::size_t>(size)) {
    size = writer.write_some(std::string_view(much).substr(written));
    ASSERT_GE(size, 0);
  }

  EXPECT_GE(written, std::size_t{PIPE_BUF});
  EXPECT_LT(written, much.size());
  EXPECT_EQ(writer.write_some("text"), 0);
}

TEST_P(BoundedWrite, fails_if_nobody_can_read_any_more) {
  ::signal(SIGPIPE, SIG_IGN);
  auto ends = GetParam()();
  SlowWriter writer(ends.in.get());
  ends.out.reset();

  EXPECT_EQ(writer.write_some("text"), -1);
  EXPECT_EQ(errno, EPIPE);
}

INSTANTIATE_TEST_SUITE_P(Pipe, BoundedWrite, testing::Values(made_pipe));
INSTANTIATE_TEST_SUITE_P(Socket, BoundedWrite, testing::Values(made_sockets));

TEST(BoundedWriteToFile, ignores_the_time_limit) {
  const Fd file(::open("/tmp", O_TMPFILE | O_RDWR, 0600));
  const std::string text(1'000'000, 'x');

  EXPECT_TRUE(write_within(file.get(), text, no_time));

  ::lseek(file.get(), 0, SEEK_SET);
  EXPECT_EQ(all_of(file.get()), text);
}

TEST(BoundedWriteToFile, sets_errno_on_failure) {
  EXPECT_FALSE(write_within(-1, "text", no_time));
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace dlock
