// usage: alone FILE [MILLISECONDS]
//
// A command to run under a lock, for that long. It checks that it is alone by a kernel lock on
// FILE, which ends with the process and not before. FILE has the number of runs so far and the
// fence of the last one. Fails with a message if another process is inside, or if the fence
// has not grown.
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

enum { failure = 99 };

int main(int argc, char** argv) {
  const char* text = getenv("DLOCK_FENCE");
  if (argc < 2 || argc > 3 || text == NULL) errx(failure, "see the first lines of alone.c");
  const int file = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) err(failure, "%s", argv[1]);
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) errx(failure, "fence %s: another one is inside", text);
    err(failure, "%s", argv[1]);
  }

  const uint64_t fence = strtoull(text, NULL, 10);
  uint64_t count = 0, last = 0;
  char line[64] = "";
  const ssize_t size = pread(file, line, sizeof line - 1, 0);
  if (size < 0) err(failure, "%s", argv[1]);
  if (size > 0 && sscanf(line, "%" SCNu64 " %" SCNu64, &count, &last) != 2) {
    errx(failure, "%s: not what is written here", argv[1]);
  }
  if (fence <= last) errx(failure, "fence %s is not greater than %" PRIu64, text, last);

  // At least as long as the old text, because both numbers grow.
  const int length =
      snprintf(line, sizeof line, "%" PRIu64 " %" PRIu64 "\n", count + 1, fence);
  if (pwrite(file, line, (size_t)length, 0) != length) err(failure, "%s", argv[1]);
  if (argc == 3) usleep((useconds_t)(atoi(argv[2]) * 1000));
  return 0;
}
