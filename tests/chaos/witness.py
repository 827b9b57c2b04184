"""Notes when each process of a command begins and ends, from connections that the kernel closes."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

from history import History


class Witness:
    """A unix socket that every process of a command connects to. It knows nothing of stores and
    locks: the kernel tells it that a process is dead."""

    def __init__(self, path: Path, history: History) -> None:
        self.path = path
        self._history = history
        self._inside: dict[socket.socket, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._stops = False
        self._thread = threading.Thread(target=self._watch, name="witness")
        self._thread.start()

    def is_inside(self, run: int, seconds: float = 0.0) -> bool:
        """Whether a process of the run has been connected for this long."""
        since = time.monotonic() - seconds
        with self._lock:
            return any(known["run"] == run and known["since"] <= since for known in self._inside.values())

    def close(self) -> None:
        """Kills the processes that are left. The verdict complains about them."""
        with self._lock:
            for known in self._inside.values():
                os.kill(known["pid"], signal.SIGKILL)
        self._stops = True
        self._thread.join()
        self._listener.close()

    def _watch(self) -> None:
        while not self._stops:
            ready = [key.fileobj for key, _ in self._selector.select(0.1)]
            # Deaths first: select may report a death together with a later beginning.
            ready.sort(key=lambda one: one is self._listener or one not in self._inside)
            for connection in ready:
                if connection is self._listener:
                    self._welcome()
                elif isinstance(connection, socket.socket):
                    self._hear(connection)

    def _welcome(self) -> None:
        connection, _ = self._listener.accept()
        connection.setblocking(False)
        self._selector.register(connection, selectors.EVENT_READ)

    def _hear(self, connection: socket.socket) -> None:
        try:
            text = connection.recv(4096)
        except ConnectionError:
            text = b""
        known = self._inside.get(connection)
        if not text:
            self._selector.unregister(connection)
            connection.close()
            if known:
                self._history.note("leave", run=known["run"], pid=known["pid"])
                with self._lock:
                    del self._inside[connection]
        elif known:
            self._history.note("not alone", run=known["run"], pid=known["pid"])
        else:
            hello = json.loads(text)
            with self._lock:
                self._inside[connection] = {**hello, "since": time.monotonic()}
            self._history.note("enter", **hello)
            try:
                connection.send(b".")
            except OSError:
                pass  # it is dead already; the next event says so
