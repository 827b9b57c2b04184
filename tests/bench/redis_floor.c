// Runs a command under a lock on a Redis server with as little work as possible:
// `redis_floor SOCKET KEY COMMAND...`.

#include <err.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

int main(int argc, char** argv) {
  if (argc < 4) return 64;
  redisContext* server = redisConnectUnix(argv[1]);
  if (server == NULL || server->err != 0) errx(69, "%s", argv[1]);
  unsigned long token[2];
  if (getrandom(token, sizeof token, 0) != sizeof token) err(69, "getrandom");
  redisReply* reply = redisCommand(server, "SET %s %016lx%016lx NX PX 30000", argv[2],
                                   token[0], token[1]);
  if (reply == NULL || reply->type != REDIS_REPLY_STATUS) return 75;
  freeReplyObject(reply);
  const pid_t pid = vfork();
  if (pid == 0) {
    execve(argv[3], argv + 3, environ);
    _exit(127);
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) err(125, "%s", argv[3]);
  reply = redisCommand(server, "DEL %s", argv[2]);
  if (reply == NULL || reply->type != REDIS_REPLY_INTEGER) return 69;
  freeReplyObject(reply);
  redisFree(server);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
