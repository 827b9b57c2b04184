// Preloaded into a server, this adds a number of milliseconds to its wall clock. The number
// is in the file that CHAOS_CLOCK names.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long milliseconds_off(void) {
  const char *path = getenv("CHAOS_CLOCK");
  FILE *file = path != NULL ? fopen(path, "r") : NULL;
  long long off = 0;
  if (file == NULL) return 0;
  if (fscanf(file, "%lld", &off) != 1) off = 0;
  fclose(file);
  return off;
}

int clock_gettime(clockid_t id, struct timespec *time) {
  const long result = syscall(SYS_clock_gettime, id, time);
  if (result != 0 || id != CLOCK_REALTIME) return (int)result;
  const long long whole = time->tv_sec * 1000LL + time->tv_nsec / 1000000 + milliseconds_off();
  time->tv_sec = whole / 1000;
  time->tv_nsec = whole % 1000 * 1000000 + time->tv_nsec % 1000000;
  return 0;
}

// Servers call this one. Both arguments are as in gettimeofday(2).
int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  struct timespec now;
  (void)zone;
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return result;
}
