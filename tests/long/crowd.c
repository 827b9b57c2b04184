// usage: crowd DIRECTORY EACH LOCK... -- COMMAND...
//
// Starts EACH contenders for each of the locks, again and again, until DIRECTORY/stop exists
// or one exits with an unexpected code; then it creates DIRECTORY/failed. One process starts
// all of them, because a shell takes longer to start dlock than dlock takes to get the lock.
//
// A contender is COMMAND, in which LOCK is replaced by its lock, and STAY by how long the
// command under the lock takes: 2500 ms in one of a hundred runs, so that it is running
// before and after a failover, and otherwise 0. Prints how often each exit code occurred.
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { most_contenders = 256, most_words = 64, most_text = 4096, codes = 256 };

extern char** environ;

static struct {
  const char* lock;
  pid_t pid;
} contenders[most_contenders];
static int number_of_contenders;
static char** command;

static bool exists(const char* directory, const char* name) {
  char path[most_text];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return access(path, F_OK) == 0;
}

static void make(const char* directory, const char* name) {
  char path[most_text];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE* file = fopen(path, "w");
  if (file == NULL || fclose(file) != 0) err(2, "%s", path);
}

// Replaces LOCK and STAY in a word.
static char* filled_in(const char* word, const char* lock, const char* stay) {
  char text[most_text];
  const char* found = strstr(word, "LOCK");
  const char* put = lock;
  if (found == NULL) {
    found = strstr(word, "STAY");
    put = stay;
  }
  if (found == NULL) return strdup(word);
  snprintf(text, sizeof text, "%.*s%s%s", (int)(found - word), word, put, found + 4);
  return strdup(text);
}

static void start(int number) {
  char* words[most_words];
  int count = 0;
  const char* stay = rand() % 100 == 0 ? "2500" : "0";
  for (; command[count] != NULL; ++count) {
    if (count + 1 == most_words) errx(2, "too many words");
    words[count] = filled_in(command[count], contenders[number].lock, stay);
  }
  words[count] = NULL;
  errno = posix_spawnp(&contenders[number].pid, words[0], NULL, NULL, words, environ);
  if (errno != 0) err(2, "%s", words[0]);
  while (count > 0) free(words[--count]);
}

static int number_of(pid_t pid) {
  for (int i = 0; i < number_of_contenders; ++i) {
    if (contenders[i].pid == pid) return i;
  }
  errx(2, "an unknown child");
}

// 69 and 75: nothing was granted in time. 76: it was lost, and the command ended.
static bool is_allowed(int code) {
  return code == 0 || code == 69 || code == 75 || code == 76;
}

int main(int argc, char** argv) {
  if (argc < 6) errx(2, "see the first lines of crowd.c");
  const char* directory = argv[1];
  int at = 3;
  for (; at < argc && strcmp(argv[at], "--") != 0; ++at) {
    for (int i = 0; i < atoi(argv[2]); ++i) {
      if (number_of_contenders == most_contenders) errx(2, "too many contenders");
      contenders[number_of_contenders++].lock = argv[at];
    }
  }
  if (at + 1 >= argc) errx(2, "no command");
  command = argv + at + 1;
  srand((unsigned)getpid());

  long tally[codes] = {0};
  for (int i = 0; i < number_of_contenders; ++i) start(i);
  for (int running = number_of_contenders; running > 0;) {
    int status = 0;
    const pid_t pid = wait(&status);
    if (pid < 0) err(2, "wait");
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    ++tally[code];
    if (!is_allowed(code)) make(directory, "failed");
    if (exists(directory, "stop") || exists(directory, "failed")) {
      --running;
    } else {
      start(number_of(pid));
    }
  }
  for (int i = 0; i < codes; ++i) {
    if (tally[i] > 0) printf("%d: %ld  ", i, tally[i]);
  }
  return 0;
}
