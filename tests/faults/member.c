// A member of the group of a shared directory that tampers with it as fast as possible.
//
//   member swap SECONDS PATH TARGET
//     replaces PATH by a link to TARGET, nothing, a FIFO, a directory and an empty file, one
//     after the other, and restores it each time
//   member drafts SECONDS DIRECTORY TARGET
//     puts links to TARGET in place of every draft (NAME.new, new-NAME) and socket (wake-…)
//     that it finds there, and where the drafts NAME.new would be created
//   member give SOCKET
//     passes its open descriptor of the file `sessions` to `member take`
//   member take SOCKET FILE
//     receives the descriptor, creates FILE to say so, and keeps it open

#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { most_path = 4096 };

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void remove_any(const char* path) {
  if (unlink(path) != 0) rmdir(path);
}

// Moves a folder out of the way that dlock has created and filled meanwhile. Otherwise nothing
// could be swapped any more.
static void make_room(const char* path, unsigned round) {
  char elsewhere[most_path];
  if (unlink(path) == 0 || rmdir(path) == 0 || errno == ENOENT) return;
  snprintf(elsewhere, sizeof elsewhere, "%s.%u", path, round);
  (void)!rename(path, elsewhere);
}

static void put(int what, const char* path, const char* target) {
  switch (what) {
    case 0:
    case 1:
    case 2: (void)!symlink(target, path); return;
    case 3: (void)!mkfifo(path, 0660); return;
    case 4: (void)!mkdir(path, 0770); return;
    case 5: close(open(path, O_WRONLY | O_CREAT | O_EXCL, 0660)); return;
    default: return;
  }
}

// Pauses for 0 to 255 microseconds, so that the swaps hit every moment of dlock.
static void pause_shortly(unsigned round) {
  const struct timespec span = {.tv_nsec = (long)(round * 37 % 256) * 1000};
  if (span.tv_nsec > 0) nanosleep(&span, NULL);
}

static int swap(double seconds, const char* path, const char* target) {
  char aside[most_path];
  // No name that dlock knows: it may remove what looks like the state of another boot, and
  // then nothing would be left to swap.
  const char* name = strrchr(path, '/') + 1;
  snprintf(aside, sizeof aside, "%.*saside-%s-", (int)(name - path), path, name);
  const double end = seconds_now() + seconds;
  unsigned round = 0;
  unsigned swapped = 0;
  // On a busy machine it may take longer until so many succeed.
  for (double now = 0; now < end || (swapped < 20 && now < end + 30); ++round, now = seconds_now()) {
    swapped += rename(path, aside) == 0;
    put((int)(round % 7), path, target);
    pause_shortly(round);
    make_room(path, round);
    (void)!rename(aside, path);
    pause_shortly(round / 7);
  }
  printf("%u rounds, %u swaps\n", round, swapped);
  return swapped < 20;
}

static bool is_draft(const char* name) {
  const size_t length = strlen(name);
  return (length > 4 && strcmp(name + length - 4, ".new") == 0) ||
         strncmp(name, "new-", 4) == 0 || strncmp(name, "wake-", 5) == 0;
}

static int drafts(double seconds, const char* directory, const char* target) {
  const double end = seconds_now() + seconds;
  if (chdir(directory) != 0) err(99, "%s", directory);
  unsigned links = 0;
  while (seconds_now() < end) {
    DIR* names = opendir(".");
    if (names == NULL) continue;
    for (const struct dirent* entry; (entry = readdir(names)) != NULL;) {
      char draft[most_path];
      if (entry->d_type == DT_LNK || entry->d_name[0] == '.') continue;
      if (is_draft(entry->d_name)) {
        unlink(entry->d_name);
        links += symlink(target, entry->d_name) == 0;
      } else {
        snprintf(draft, sizeof draft, "%s.new", entry->d_name);
        links += symlink(target, draft) == 0;
      }
    }
    closedir(names);
  }
  printf("%u links\n", links);
  return links == 0;
}

// --- Passing descriptors to another user ---

static int connected(const char* path, bool listens) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (listens) {
    umask(0);
    if (bind(fd, (struct sockaddr*)&address, sizeof address) != 0) err(99, "%s", path);
    listen(fd, 1);
    return accept(fd, NULL, NULL);
  }
  while (connect(fd, (struct sockaddr*)&address, sizeof address) != 0) usleep(10000);
  return fd;
}

static int session(void) {
  for (int fd = 3; fd < 4096; ++fd) {
    char link[64];
    char path[most_path];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 9) continue;
    path[length] = '\0';
    if (strcmp(path + length - 9, "/sessions") == 0) return fd;
  }
  errx(99, "no session is open");
}

union control {
  char bytes[CMSG_SPACE(sizeof(int))];
  struct cmsghdr head;
};

static int give(const char* path) {
  const int fd = session();
  union control control = {0};
  struct iovec byte = {.iov_base = ".", .iov_len = 1};
  struct msghdr message = {.msg_iov = &byte,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  control.head.cmsg_level = SOL_SOCKET;
  control.head.cmsg_type = SCM_RIGHTS;
  control.head.cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
  if (sendmsg(connected(path, false), &message, 0) != 1) err(99, "sendmsg");
  return 0;
}

static int take(const char* path, const char* done) {
  char byte;
  union control control = {0};
  struct iovec data = {.iov_base = &byte, .iov_len = 1};
  struct msghdr message = {.msg_iov = &data,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  if (recvmsg(connected(path, true), &message, 0) != 1) err(99, "recvmsg");
  if (control.head.cmsg_type != SCM_RIGHTS) errx(99, "no descriptor came");
  close(open(done, O_WRONLY | O_CREAT | O_EXCL, 0644));
  for (;;) pause();
}

int main(int argc, char** argv) {
  const char* verb = argc > 1 ? argv[1] : "";
  if (argc == 5 && strcmp(verb, "swap") == 0) {
    return swap(atof(argv[2]), argv[3], argv[4]);
  }
  if (argc == 5 && strcmp(verb, "drafts") == 0) {
    return drafts(atof(argv[2]), argv[3], argv[4]);
  }
  if (argc == 3 && strcmp(verb, "give") == 0) return give(argv[2]);
  if (argc == 4 && strcmp(verb, "take") == 0) return take(argv[2], argv[3]);
  errx(99, "see the first lines of member.c");
}
