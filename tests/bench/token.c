// The simplest lock whose holders wake each other: a token that is taken and returned. It has
// no name, lease, order or record, and it does not survive the death of its holder.
//
//   token pipe FIFO COMMAND [ARGUMENT]...     a byte in a pipe, which another process keeps open
//   token redis SOCKET COMMAND [ARGUMENT]...  an element of a list on a server, and a key
//                                             with a time to live while it is held

#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int connection_to(const char* path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) errx(1, "%s: too long", path);
  strcpy(address.sun_path, path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (struct sockaddr*)&address, sizeof address) != 0)
    err(1, "%s", path);
  return fd;
}

static void say(int fd, const char* text) {
  const size_t size = strlen(text);
  if (write(fd, text, size) != (ssize_t)size) err(1, "write");
}

// Reads until that many lines have arrived.
static void read_lines(int fd, int lines) {
  char bytes[256];
  while (lines > 0) {
    const ssize_t size = read(fd, bytes, sizeof bytes);
    if (size <= 0) err(1, "read");
    for (ssize_t i = 0; i < size; ++i) lines -= bytes[i] == '\n';
  }
}

static void take(int fd, int is_redis) {
  char byte;
  if (!is_redis) {
    if (read(fd, &byte, 1) != 1) err(1, "read");
    return;
  }
  say(fd, "BLPOP token 0\r\n");
  read_lines(fd, 5);
  say(fd, "SET held 1 PX 60000\r\n");
  read_lines(fd, 1);
}

static void release(int fd, int is_redis) {
  say(fd, is_redis ? "DEL held\r\nLPUSH token 1\r\n" : "x");
  if (is_redis) read_lines(fd, 2);
}

int main(int argc, char** argv) {
  if (argc < 4) return 64;
  const int is_redis = strcmp(argv[1], "redis") == 0;
  const int fd = is_redis ? connection_to(argv[2]) : open(argv[2], O_RDWR | O_CLOEXEC);
  if (fd < 0) err(1, "%s", argv[2]);
  take(fd, is_redis);
  const pid_t child = vfork();
  if (child == 0) {
    execv(argv[3], argv + 3);
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) err(1, "cannot run it");
  release(fd, is_redis);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
