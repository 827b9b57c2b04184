// Times commands against each other, all with the same code.
//
//   measure time ROUNDS COMMAND... ::: COMMAND... [::: ...]
//     runs each command once in each round, and begins each round with another one.
//     Prints one line for each round: for each command its wall time and processor time in
//     microseconds, and its largest resident size in KiB.
//   measure crowd WORKERS SECTIONS COMMAND...
//     WORKERS processes run the command SECTIONS times each. Prints how many microseconds
//     they took altogether. Fails if a command fails.

#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { most_commands = 8, rounds_to_warm_up = 5 };

struct sample {
  long wall;
  long processor;
  long resident;
};

static long microseconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

static long microseconds(struct timeval time) {
  return time.tv_sec * 1000000L + time.tv_usec;
}

static pid_t start(char** command) {
  pid_t pid = 0;
  const int error = posix_spawn(&pid, command[0], NULL, NULL, command, environ);
  if (error != 0) errx(1, "cannot start %s: %s", command[0], strerror(error));
  return pid;
}

static struct sample run(char** command) {
  int status = 0;
  struct rusage used;
  const long start_time = microseconds_now();
  const pid_t pid = start(command);
  if (wait4(pid, &status, 0, &used) != pid) err(1, "wait4");
  const struct sample sample = {
      microseconds_now() - start_time,
      microseconds(used.ru_utime) + microseconds(used.ru_stime),
      used.ru_maxrss,
  };
  if (!WIFEXITED(status) || WEXITSTATUS(status) >= 126) {
    errx(1, "%s ended with status %#x", command[0], (unsigned)status);
  }
  return sample;
}

// Returns the standard output, and redirects that of the commands to /dev/null.
static FILE* results_apart(void) {
  const int own = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  FILE* results = own < 0 ? NULL : fdopen(own, "w");
  if (results == NULL || dup2(nowhere, STDOUT_FILENO) < 0) err(1, "standard output");
  return results;
}

static int time_commands(int rounds, char** words) {
  FILE* results = results_apart();
  char** commands[most_commands];
  int count = 0;
  for (char** word = words; *word != NULL; ++word) {
    if (word == words || word[-1] == NULL) {
      if (count == most_commands) errx(64, "too many commands");
      commands[count++] = word;
    }
    if (strcmp(*word, ":::") == 0) *word = NULL;
    if (*word == NULL && word[1] == NULL) errx(64, "a command is missing");
  }
  for (int round = -rounds_to_warm_up; round < rounds; ++round) {
    struct sample samples[most_commands];
    for (int i = 0; i < count; ++i) {
      const int turn = (i + round + rounds_to_warm_up) % count;
      samples[turn] = run(commands[turn]);
    }
    if (round < 0) continue;
    for (int i = 0; i < count; ++i) {
      fprintf(results, "%ld %ld %ld%c", samples[i].wall, samples[i].processor,
              samples[i].resident, i + 1 == count ? '\n' : ' ');
    }
  }
  return fclose(results) == 0 ? 0 : 1;
}

static void work(int sections, char** command, int gate) {
  char ignored;
  if (read(gate, &ignored, 1) != 0) _exit(1);  // the parent closes the pipe to open the gate
  for (int i = 0; i < sections; ++i) {
    int status = 0;
    const pid_t pid = start(command);
    if (waitpid(pid, &status, 0) != pid || status != 0) _exit(1);
  }
  _exit(0);
}

static int crowd(int workers, int sections, char** command) {
  int gate[2];
  if (pipe(gate) != 0) err(1, "pipe");
  for (int i = 0; i < workers; ++i) {
    const pid_t pid = fork();
    if (pid < 0) err(1, "fork");
    if (pid == 0) {
      close(gate[1]);
      work(sections, command, gate[0]);
    }
  }
  usleep(100000);  // so that all of them wait at the gate
  const long start_time = microseconds_now();
  close(gate[1]);
  int failed = 0;
  for (int i = 0; i < workers; ++i) {
    int status = 0;
    wait(&status);
    failed += status != 0;
  }
  printf("%ld\n", microseconds_now() - start_time);
  if (failed > 0) errx(1, "%d workers failed", failed);
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 3 && strcmp(argv[1], "time") == 0) {
    return time_commands(atoi(argv[2]), argv + 3);
  }
  if (argc > 4 && strcmp(argv[1], "crowd") == 0) {
    return crowd(atoi(argv[2]), atoi(argv[3]), argv + 4);
  }
  fprintf(stderr,
          "usage: measure time ROUNDS COMMAND... ::: COMMAND...\n"
          "       measure crowd WORKERS SECTIONS COMMAND...\n");
  return 64;
}
