// Runs a command under a lock with as little work as possible: `floor FILE COMMAND...`.
// If FILE is `-`, it takes no lock.

#include <err.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

int main(int argc, char** argv) {
  if (argc < 3) return 64;
  if (strcmp(argv[1], "-") != 0) {
    const int fd = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0) err(69, "%s", argv[1]);
  }
  const pid_t pid = vfork();
  if (pid == 0) {
    execve(argv[2], argv + 2, environ);
    _exit(127);
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) err(125, "%s", argv[2]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
