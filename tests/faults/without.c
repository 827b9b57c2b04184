// Runs a program without some system calls, as a container engine's filter does:
//   without ERRNO NUMBER... -- COMMAND ARGUMENT...
// Each of these system calls fails with ERRNO, for the command and all its descendants.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { most = 400 };

int main(int argc, char** argv) {
  static struct sock_filter code[2 * most + 2];
  unsigned short n = 0;
  int i = 2;

  if (argc < 4) return 64;
  const unsigned error = (unsigned)atoi(argv[1]);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (; i < argc && strcmp(argv[i], "--") != 0 && i < most; ++i) {
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(argv[i]), 0, 1);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
  }
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  if (i + 1 >= argc) return 64;

  const struct sock_fprog filter = {n, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    perror("without");
    return 125;
  }
  execvp(argv[i + 1], argv + i + 1);
  perror(argv[i + 1]);
  return 127;
}
