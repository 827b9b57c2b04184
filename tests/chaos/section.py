"""The command that contenders run under a lock: a family of processes that a witness sees.

usage: section.py SOCKET FLOCK RUN SECONDS CODE FAMILY [LATEST]

Each process says to the witness at SOCKET who it is and keeps the connection open, so that
the kernel tells the witness when it is dead, however that came. The first one also takes a
lock of the kernel, on the file FLOCK, which its children inherit: a second opinion on
whether it is alone. FAMILY is one of
  plain     a single process
  stubborn  one that ignores SIGTERM
  tree      one with a child and a daemon that ignore SIGTERM; they end with it
LATEST is when the kernel is to end it, in seconds of the monotonic clock.
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
    """Returns when the witness has noted this process."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    connection.connect(path)
    hello = {"run": run, "pid": os.getpid(), "fence": int(os.environ["DLOCK_FENCE"]),
             "slot": int(os.environ.get("DLOCK_SLOT", "0"))}
    connection.sendall(json.dumps(hello).encode() + b"\n")
    connection.recv(1)
    return connection


def take_kernel_lock(path: str, connection: socket.socket) -> None:
    """Tells the witness if another process has the lock that the grant is about."""
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
    """A child, or a daemon, that ignores SIGTERM and lives as long as its parent does.
    Returns when the witness has noted it."""
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
