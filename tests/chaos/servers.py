"""The servers that a run of chaos starts. It stops and kills them by pid."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from history import History
from leases import Lease, Ledger, MajorityLedger
from resp import Client, ServerError, ask

Address = str | tuple[str, int]


class CannotStart(Exception):
    """A server does not start, so the run fails."""


def await_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= end:
            raise CannotStart(f"{what}: timed out after {seconds:.0f} s")
        time.sleep(0.05)


def free_ports(number: int, also_at: int = 0) -> list[int]:
    """Returns free ports. For each PORT, PORT + `also_at` is free as well."""
    found: list[int] = []
    held: list[socket.socket] = []
    while len(found) < number:
        first = socket.create_server(("127.0.0.1", 0))
        held.append(first)
        port = first.getsockname()[1]
        if also_at:
            try:
                held.append(socket.create_server(("127.0.0.1", port + also_at)))
            except (OSError, OverflowError):
                continue
        found.append(port)
    for one in held:
        one.close()
    return found


class Clock:
    """The wall clock of a server that has preloaded clock.c."""

    def __init__(self, file: Path, library: Path) -> None:
        self.file = file
        self.library = library
        self.step(0)

    def step(self, milliseconds: int) -> None:
        """Sets the difference to the real time."""
        self.file.write_text(f"{milliseconds}\n")


def clock_library(root: Path) -> Path:
    library = root / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library),
                    str(Path(__file__).parent / "clock.c")], check=True)
    return library


class Server:
    """A redis-server in a directory, with a MONITOR that keeps the ledger while it runs."""

    def __init__(self, directory: Path, address: Address, settings: list[str],
                 is_sentinel: bool = False) -> None:
        self.directory = directory
        self.address = address
        self.clock: Clock | None = None  # None: the clock of the machine
        self.process: subprocess.Popen[bytes] | None = None
        self.is_sentinel = is_sentinel
        self._arguments = ["--sentinel"] if is_sentinel else []
        directory.mkdir(parents=True)
        where = [f"port {address[1]}", "bind 127.0.0.1"] if isinstance(address, tuple) else \
            ["port 0", f"unixsocket {address}"]
        lines = [*where, f"dir {directory}", "protected-mode no", *settings]
        (directory / "conf").write_text("\n".join(lines) + "\n")

    @property
    def name(self) -> str:
        return self.directory.name

    def start(self) -> None:
        environment = dict(os.environ)
        if self.clock:
            environment["LD_PRELOAD"] = str(self.clock.library)
            environment["CHAOS_CLOCK"] = str(self.clock.file)
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                ["redis-server", str(self.directory / "conf"), *self._arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                start_new_session=True)  # Ctrl-C must reach only chaos, which then stops the server
        await_until(self.answers, 15, f"server {self.name}")

    def answers(self) -> bool:
        return self.ask("PING") == "PONG"

    def ask(self, *words: object) -> object:
        """Returns the reply, or None after an error or without a reply."""
        try:
            return ask(self.address, *words)
        except ServerError:
            return None

    def signal(self, number: int) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self) -> None:
        if self.process:
            self.signal(signal.SIGKILL)
            self.process.wait()


class Observer:
    """Notes in the history each lease that one of the servers grants or renews."""

    def __init__(self, servers: list[Server], locks: list[str], ledger: Ledger | MajorityLedger,
                 history: History) -> None:
        self._history = history
        self._locks = locks
        self._ledger = ledger
        self._lock = threading.Lock()
        self._stops = False
        self._threads = [threading.Thread(target=self._listen, args=(server,)) for server in servers]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stops = True
        for thread in self._threads:
            thread.join()

    def _listen(self, server: Server) -> None:
        while not self._stops:
            try:
                with Client(server.address, 0.5) as client:
                    client.call("MONITOR")
                    self._look(server)
                    self._read(server, client)
            except (OSError, ValueError, ServerError):
                time.sleep(0.02)  # until the server is available again

    def _look(self, server: Server) -> None:
        """Notes the leases that were granted or renewed while there was no connection."""
        with Client(server.address, 0.5) as client:
            for lock in self._locks:
                try:
                    value = client.call("GET", f"dlock:{{{lock}}}")
                    left = client.call("PTTL", f"dlock:{{{lock}}}")
                except ServerError:
                    continue  # a replica in a cluster, or the slot of another member
                with self._lock:
                    if value is not None and left > 0:
                        self._note(self._ledger.look(server.name, lock, value, time.time() + left / 1000))
                    elif isinstance(self._ledger, MajorityLedger):
                        self._ledger.forget(server.name, lock)

    def _note(self, lease: Lease | None) -> None:
        if lease:
            began = self._history.began
            more = {"ends": [round(end - began, 6) for end in lease.ends]} if lease.ends else {}
            self._history.note("lease", lock=lease.lock, fence=lease.fence, end=round(lease.end - began, 6), **more)

    def _read(self, server: Server, client: Client) -> None:
        """Reads until the connection breaks. A line may arrive in several parts."""
        client.socket.settimeout(0.5)
        rest = b""
        while not self._stops:
            try:
                received = client.socket.recv(65536)
            except TimeoutError:
                continue
            if not received:
                return
            arrived = time.time()
            *lines, rest = (rest + received).split(b"\n")
            for line in lines:
                text = line.decode("utf-8", "replace").rstrip()
                with self._lock:
                    self._note(self._ledger.read(server.name, text, arrived))
