// Processes that try to escape: `chains COUNT SECONDS STOP_FILE [session|vfork|recycle]`.
//
// Runs COUNT chains. In each chain a process forks and exits as fast as it can, until SECONDS
// are over or STOP_FILE exists. Each link writes its pid to a shared mapping of the file
// STOP_FILE.alive, which has one number for each chain. With `session` each link has its own
// session; with `vfork` a link copies no memory. With `recycle` there are no chains, but one
// process that starts others, which end at once, so that pids are reused.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *stop_file;
static time_t end;
static int has_session;
static int is_light;
static volatile pid_t *alive;

// This many earlier links may still be ending on their stacks.
enum { STACKS = 64 };
static char stacks[STACKS][16384] __attribute__((aligned(64)));

static int is_over(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec >= end || access(stop_file, F_OK) == 0;
}

static int link_of_chain(void *turn);

static int start_next(long turn) {
  void *next = (void *)((turn + 1) % STACKS);
  if (is_light) {
    return clone(link_of_chain, stacks[turn] + sizeof stacks[0], CLONE_VM | SIGCHLD, next);
  }
  const pid_t child = fork();
  return child != 0 ? child : link_of_chain(next);
}

// `turn` chooses the stack of the next link.
static int link_of_chain(void *turn) {
  if (has_session) setsid();
  *alive = getpid();
  if (is_over()) _exit(0);
  while (start_next((long)turn) < 0) usleep(1000);
  _exit(0);
}

int main(int argc, char **argv) {
  if (argc < 4) return 64;
  const int count = atoi(argv[1]);
  stop_file = argv[3];
  has_session = argc > 4 && strcmp(argv[4], "session") == 0;
  const int recycles = argc > 4 && strcmp(argv[4], "recycle") == 0;
  is_light = argc > 4 && strcmp(argv[4], "vfork") == 0;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  end = now.tv_sec + atoi(argv[2]);
  char path[4096];
  strcpy(path, stop_file);
  strcat(path, ".alive");
  const int file = open(path, O_RDWR | O_CREAT, 0666);
  if (file < 0 || ftruncate(file, (off_t)(sizeof(pid_t) * (size_t)count)) != 0) return 71;
  alive = mmap(NULL, sizeof(pid_t) * (size_t)count, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  while (recycles && !is_over()) {
    const pid_t child = vfork();
    if (child == 0) _exit(0);
    *alive = child;
    waitpid(child, NULL, 0);
  }
  if (recycles) return 0;
  for (int i = 0; i < count; ++i, ++alive) {
    if (fork() == 0) link_of_chain((void *)0);
  }
  for (;;) pause();
}
