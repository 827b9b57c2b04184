// The command that runs under the lock. It does as little as possible, and writes when it
// began or ended, in nanoseconds of CLOCK_MONOTONIC.
//
//   section first FILE         writes when it began
//   section last FILE FIFO     waits until FIFO is opened for writing, then writes when
//                              it ended; also ends with its parent
//   section alone FILE         fails if another one runs at the same time: FILE exists

#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static void write_time(int fd, struct timespec time) {
  char text[32];
  const int size =
      snprintf(text, sizeof text, "%ld%09ld\n", (long)time.tv_sec, time.tv_nsec);
  if (write(fd, text, (size_t)size) != size) _exit(1);
}

static int output(const char* path) {
  const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (fd < 0) err(1, "%s", path);
  return fd;
}

int main(int argc, char** argv) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (argc == 3 && strcmp(argv[1], "first") == 0) {
    write_time(output(argv[2]), now);
  } else if (argc == 4 && strcmp(argv[1], "last") == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int fd = output(argv[2]);
    if (open(argv[3], O_RDONLY) < 0) err(1, "%s", argv[3]);
    clock_gettime(CLOCK_MONOTONIC, &now);
    write_time(fd, now);
  } else if (argc == 3 && strcmp(argv[1], "alone") == 0) {
    const int fd = open(argv[2], O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0) err(1, "%s", argv[2]);
    if (unlink(argv[2]) != 0) err(1, "%s", argv[2]);
  } else {
    return 64;
  }
  _exit(0);
}
