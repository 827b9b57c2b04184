"""The command that contenders run under a lock: a family of processes that the witness observes.

usage: section.py SOCKET FLOCK RUN SECONDS CODE FAMILY [LATEST]

Each process identifies itself to the witness at SOCKET and keeps the connection open, so that
the kernel tells the witness when the process is dead, for whatever reason. The first process also
takes a lock of the kernel on the file FLOCK, which its children inherit. This is a second opinion
on whether it is the only holder. FAMILY is one of
  plain     a single process
  stubborn  a process that ignores SIGTERM
  tree      a process with a child and a daemon; all ignore SIGTERM and end together
At LATEST, in seconds of the monotonic clock, the kernel ends the first process.
"""

import errno
import fcntl
import json
import os
import select
import signal
import socket
import sys
import time


def greet(path: str, run: int) -> socket.socket:
    """Connects to the witness. Returns after the witness has noted this process."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    connection.connect(path)
    hello = {"run": run, "pid": os.getpid(), "fence": int(os.environ["DLOCK_FENCE"]),
             "slot": int(os.environ.get("DLOCK_SLOT", "0"))}
    connection.sendall(json.dumps(hello).encode() + b"\n")
    connection.recv(1)
    return connection


def take_kernel_lock(path: str, connection: socket.socket) -> None:
    """Takes the kernel lock. Tells the witness if another process has it."""
    shared = path.endswith(":shared")
    file = os.open(path.removesuffix(":shared"), os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(file, True)
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno != errno.EWOULDBLOCK:
            raise
        connection.sendall(b"not alone\n")


def relative(path: str, run: int, life: tuple[int, int], is_daemon: bool) -> None:
    """Starts a child or a daemon that ignores SIGTERM and lives as long as this process.
    Returns after the witness has noted it."""
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        if is_daemon:
            os.setsid()
            if os.fork() > 0:
                os._exit(0)
        os.close(life[1])
        connection = greet(path, run)
        os.close(ready)
        os.write(tell, b".")
        os.close(tell)
        os.read(life[0], 1)
        connection.close()
        os._exit(0)
    os.close(tell)
    os.read(ready, 1)
    os.close(ready)
    if is_daemon:
        os.waitpid(child, 0)


def main() -> None:
    path, flock, run, seconds, code, family = sys.argv[1:7]
    if len(sys.argv) > 7:
        left = float(sys.argv[7]) - time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, max(left, 0.001))
    if family != "plain":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    connection = greet(path, int(run))
    slot = os.environ.get("DLOCK_SLOT", "0")
    take_kernel_lock(flock.replace("{slot}", slot), connection)
    if family == "tree":
        life = os.pipe()
        relative(path, int(run), life, is_daemon=False)
        relative(path, int(run), life, is_daemon=True)
        os.close(life[0])
    select.select([], [], [], float(seconds))
    sys.exit(int(code))


main()
