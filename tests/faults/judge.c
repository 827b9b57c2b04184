// Runs dlock again and again on files that were tampered with, and reports forbidden
// behaviour. dlock must not hang, end by a signal or with an undocumented code, fail with
// anything but one line on standard error (two lines if it succeeds, and warnings of damaged
// files are allowed), or use more memory than 64 MiB (or JUDGE_KIB; the limit is twice that).
//
//   judge [--for SECONDS] -- COMMAND... [::: COMMAND...]...
//     runs the commands in turn, once or for SECONDS
//   judge --storm ROUNDS SEED FILE... -- COMMAND... [::: COMMAND...]...
//     in each round damages one of the files, runs the next command, and restores all files
//
// A command that begins with @MS gets SIGTERM after MS milliseconds. Prints a line for each
// violation, 20 at most, and fails if there was one.

#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  most_files = 16,
  most_commands = 64,
  most_complaints = 20,
  most_milliseconds = 10000,
  most_text = 4096,
};

static long most_kilobytes = 64 * 1024;
static uint64_t dice_state;

// xorshift64*: the same numbers everywhere.
static uint64_t dice(uint64_t below) {
  dice_state ^= dice_state >> 12;
  dice_state ^= dice_state << 25;
  dice_state ^= dice_state >> 27;
  return (dice_state * 0x2545F4914F6CDD1DULL >> 16) % below;
}

// --- One command ---

struct outcome {
  int status;
  bool too_slow;
  bool told_to_end;
  long kilobytes;
  char said[most_text];
};

// 64 is missing on purpose: it would mean that the test uses dlock wrongly.
static bool is_documented(int code) {
  static const int codes[] = {0, 1, 2, 69, 75, 76, 77, 78};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; ++i) {
    if (codes[i] == code) return true;
  }
  return false;
}

static pid_t start(char** command, int said) {
  const pid_t pid = fork();
  if (pid < 0) err(99, "fork");
  if (pid > 0) return pid;
  setpgid(0, 0);
  // More than it may use, so that the machine survives a process that uses all it can get.
  const struct rlimit data = {(rlim_t)most_kilobytes * 2048,
                              (rlim_t)most_kilobytes * 2048};
  setrlimit(RLIMIT_DATA, &data);
  const int null = open("/dev/null", O_RDWR);
  dup2(null, 0);
  dup2(null, 1);
  dup2(said, 2);
  signal(SIGINT, SIG_DFL);
  execvp(command[0], command);
  err(99, "%s", command[0]);
}

static bool ends_within(int pidfd, int milliseconds) {
  struct pollfd end = {.fd = pidfd, .events = POLLIN};
  return poll(&end, 1, milliseconds) == 1;
}

static struct outcome run(char** command) {
  struct outcome outcome = {0};
  int stop_after = 0;
  if (command[0][0] == '@') stop_after = atoi(*command++ + 1);
  const int said = memfd_create("said", MFD_CLOEXEC);
  const pid_t pid = start(command, said);
  const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (pidfd < 0) err(99, "pidfd_open");
  if (stop_after > 0 && !ends_within(pidfd, stop_after)) {
    outcome.told_to_end = true;
    kill(pid, SIGTERM);
  }
  outcome.too_slow = !ends_within(pidfd, most_milliseconds);
  if (outcome.too_slow) kill(-pid, SIGKILL);
  struct rusage used;
  wait4(pid, &outcome.status, 0, &used);
  outcome.kilobytes = used.ru_maxrss;
  const ssize_t length = pread(said, outcome.said, most_text - 1, 0);
  outcome.said[length > 0 ? length : 0] = '\0';
  close(said);
  close(pidfd);
  return outcome;
}

static int lines_in(const char* text) {
  int lines = 0;
  for (; *text != '\0'; ++text) lines += *text == '\n';
  return lines;
}

// `list` warns of each damaged file.
static int warnings_in(const char* text) {
  static const char warning[] = "dlock: warning: ";
  int warnings = 0;
  for (const char* end; (end = strchr(text, '\n')) != NULL; text = end + 1) {
    warnings += strncmp(text, warning, sizeof warning - 1) == 0;
  }
  return warnings;
}

static bool is_clean(const char* text) {
  for (; *text != '\0'; ++text) {
    const unsigned char c = (unsigned char)*text;
    if ((c < ' ' && c != '\n') || c == 0x7f) return false;
  }
  return true;
}

// The violation, or null.
static const char* objection(const struct outcome* outcome) {
  if (outcome->too_slow) return "takes more than 10 s";
  if (outcome->kilobytes > most_kilobytes) return "takes too much memory";
  if (WIFSIGNALED(outcome->status)) {
    const bool as_told = outcome->told_to_end && WTERMSIG(outcome->status) == SIGTERM;
    return as_told ? NULL : "ends by a signal";
  }
  const int code = WEXITSTATUS(outcome->status);
  if (!is_documented(code)) return "ends with a code that is not documented";
  const int lines = lines_in(outcome->said);
  if (lines - warnings_in(outcome->said) > (code == 0 ? 2 : 1)) return "says too many lines";
  // `check` answers with its exit code only.
  if (code >= 64 && code != 76 && lines == 0) return "does not say why it fails";
  if (lines > 0 && strncmp(outcome->said, "dlock: ", 7) != 0) return "says nonsense";
  if (!is_clean(outcome->said)) return "writes control characters";
  return NULL;
}

// --- All commands ---

static char** commands[most_commands];
static int command_count;
static int complaints;

static void split(char** words) {
  while (*words != NULL) {
    if (command_count == most_commands) errx(99, "too many commands");
    commands[command_count++] = words;
    while (*words != NULL && strcmp(*words, ":::") != 0) ++words;
    if (*words != NULL) *words++ = NULL;
  }
  if (command_count == 0) errx(99, "no command");
}

// Fails after enough reports.
static bool judge(char** command, const char* where) {
  const struct outcome outcome = run(command);
  const char* wrong = objection(&outcome);
  if (wrong == NULL) return true;
  ++complaints;
  printf("%s", where);
  for (char** word = command; *word != NULL; ++word) printf("%s ", *word);
  printf("%s: wait status 0x%x, %ld KiB, said: %s\n", wrong, (unsigned)outcome.status,
         outcome.kilobytes, outcome.said);
  return complaints < most_complaints;
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void judge_all(double seconds) {
  const double end = seconds_now() + seconds;
  do {
    for (int i = 0; i < command_count; ++i) {
      if (!judge(commands[i], "")) return;
      if (seconds > 0 && seconds_now() >= end) return;
    }
  } while (seconds_now() < end);
}

// --- Damage ---

struct file {
  const char* path;
  unsigned char* bytes;
  size_t size;
};

static struct file read_whole(const char* path) {
  struct file file = {.path = path};
  struct stat status;
  const int fd = open(path, O_RDONLY);
  if (fd < 0 || fstat(fd, &status) != 0) err(99, "%s", path);
  file.size = (size_t)status.st_size;
  file.bytes = malloc(file.size + 1);
  if (read(fd, file.bytes, file.size) != (ssize_t)file.size) err(99, "%s", path);
  close(fd);
  return file;
}

static void write_whole(const char* path, const unsigned char* bytes, size_t size) {
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  // A folder that was removed with its files is not restored.
  if (fd < 0) return;
  if (write(fd, bytes, size) != (ssize_t)size) err(99, "%s", path);
  close(fd);
}

static void flip_bits(unsigned char* bytes, size_t size) {
  for (uint64_t n = 1 + dice(8); n > 0; --n) {
    bytes[dice(size)] ^= (unsigned char)(1u << dice(8));
  }
}

static void overwrite(unsigned char* bytes, size_t size) {
  static const unsigned char common[] = {0, 0xff, 0x7f, 0x80, '"', '\n', '9', '\\', '{'};
  const size_t start = dice(size);
  const size_t length = 1 + dice(size - start < 32 ? size - start : 32);
  const unsigned char byte = common[dice(sizeof common)];
  const bool random = dice(3) == 0;
  for (size_t i = start; i < start + length; ++i) {
    bytes[i] = random ? (unsigned char)dice(256) : byte;
  }
}

// Replaces a block by another one of the file, as a failing disk may.
static void repeat_block(unsigned char* bytes, size_t size) {
  const size_t length = 1 + dice(size);
  const size_t from = dice(size - length + 1);
  const size_t to = dice(size - length + 1);
  memmove(bytes + to, bytes + from, length);
}

static void damage(const struct file* file) {
  const size_t room = file->size + 65536;
  unsigned char* bytes = calloc(room, 1);
  size_t size = file->size;
  memcpy(bytes, file->bytes, size);
  switch (size == 0 ? 4 : dice(6)) {
    case 0: flip_bits(bytes, size); break;
    case 1: overwrite(bytes, size); break;
    case 2: repeat_block(bytes, size); break;
    case 3: size = dice(size); break;
    case 4:
      for (size_t i = size, end = size + dice(65536), zero = dice(2); i < end; ++i) {
        bytes[size++] = zero ? 0 : (unsigned char)dice(256);
      }
      break;
    default:
      for (size_t i = 0; i < size; ++i) bytes[i] = (unsigned char)dice(256);
  }
  write_whole(file->path, bytes, size);
  free(bytes);
}

static void storm(long rounds, const struct file* files, int count) {
  for (long round = 0; round < rounds; ++round) {
    const struct file* file = &files[dice((uint64_t)count)];
    char where[80];
    snprintf(where, sizeof where, "round %ld, %.40s: ", round,
             strrchr(file->path, '/') + 1);
    damage(file);
    if (!judge(commands[round % command_count], where)) return;
    for (int i = 0; i < count; ++i) {
      write_whole(files[i].path, files[i].bytes, files[i].size);
    }
  }
}

int main(int argc, char** argv) {
  struct file files[most_files];
  int file_count = 0;
  double seconds = 0;
  long rounds = 0;
  char** next = argv + 1;
  if (argc > 3 && strcmp(*next, "--for") == 0) {
    seconds = atof(next[1]);
    next += 2;
  } else if (argc > 4 && strcmp(*next, "--storm") == 0) {
    rounds = atol(next[1]);
    dice_state = strtoull(next[2], NULL, 10) * 0x9E3779B97F4A7C15ULL + 1;
    for (next += 3; *next != NULL && strcmp(*next, "--") != 0; ++next) {
      if (file_count == most_files) errx(99, "too many files");
      files[file_count++] = read_whole(*next);
    }
  }
  if (*next == NULL || strcmp(*next, "--") != 0)
    errx(99, "see the first lines of judge.c");
  split(next + 1);
  if (rounds > 0) {
    if (file_count == 0) errx(99, "no file to damage");
    storm(rounds, files, file_count);
  } else {
    judge_all(seconds);
  }
  return complaints > 0;
}
