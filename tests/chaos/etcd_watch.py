"""Observes when leases of locks begin and end on etcd, from the watch events of its members."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from history import History

SPACE = "dlock/"


@dataclass(frozen=True)
class Change:
    """A lease of a lock begins, or ends without a release of the lock."""

    lock: str
    fence: int
    ended: bool


def changes_in(answer: dict[str, Any], locks: list[str]) -> Iterator[Change]:
    """Yields the changes in a message of a watch. A release deletes the key of the holder and
    writes a record of the run in the same revision. The end of a lease only deletes the key."""
    events = answer.get("events", [])
    noted = {event["kv"]["mod_revision"] for event in events if event.get("type") != "DELETE"}
    for event in events:
        key = base64.b64decode(event["kv"]["key"]).decode()
        lock, _, lease = key.removeprefix(SPACE).rpartition("/")
        if lock not in locks or not lease:
            continue
        gone = event.get("type") == "DELETE"
        pair = event.get("prev_kv") if gone else event["kv"]
        if pair is None or not _holds(pair.get("value", "")):
            continue
        if not gone or event["kv"]["mod_revision"] not in noted:
            yield Change(lock, int(pair["create_revision"]), gone)


def _holds(value: str) -> bool:
    """True for the entry of a holder. Values that dlock did not write are no entries."""
    try:
        entry = json.loads(base64.b64decode(value))
    except ValueError:
        return False
    return isinstance(entry, dict) and entry.get("standing") in ("holds", "broken")


class Observer:
    """Notes in the history which leases are granted, and which expire. It watches all members,
    so that an unavailable one delays nothing, and notes each change once."""

    def __init__(self, members: list[tuple[str, int]], locks: list[str], history: History) -> None:
        self._locks = locks
        self._history = history
        self._lock = threading.Lock()
        self._told: set[Change] = set()
        self._stops = False
        self._open: dict[tuple[str, int], socket.socket] = {}
        self._threads = [threading.Thread(target=self._listen, args=(member,)) for member in members]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stops = True
        with self._lock:
            for one in self._open.values():
                _shut(one)
        for thread in self._threads:
            thread.join()

    def _listen(self, member: tuple[str, int]) -> None:
        revision = 1
        while not self._stops:
            connection = http.client.HTTPConnection(*member, timeout=2)
            try:
                revision = self._watch(connection, member, revision)
            except (OSError, ValueError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            time.sleep(0.05)  # until the member is available again

    def _watch(self, connection: http.client.HTTPConnection, member: tuple[str, int], revision: int) -> int:
        """Watches until the connection breaks. Returns the revision to continue from."""
        connection.connect()
        self._keep(member, connection.sock)
        wanted = {"key": base64.b64encode(SPACE.encode()).decode(),
                  "range_end": base64.b64encode(b"dlock0").decode(),
                  "start_revision": str(revision), "prev_kv": True}
        connection.request("POST", "/v3/watch", json.dumps({"create_request": wanted}))
        response = connection.getresponse()
        connection.sock.settimeout(None)  # a stopped member sends nothing for a long time
        while line := response.readline():
            answer = json.loads(line).get("result", {})
            for change in changes_in(answer, self._locks):
                self._note(change)
                revision = int(answer["header"]["revision"]) + 1
        return revision

    def _keep(self, member: tuple[str, int], one: socket.socket) -> None:
        with self._lock:
            self._open[member] = one
            if self._stops:
                _shut(one)

    def _note(self, change: Change) -> None:
        with self._lock:
            if change in self._told:
                return
            self._told.add(change)
        if change.ended:
            self._history.note("lease ended", lock=change.lock, fence=change.fence)
        else:
            self._history.note("lease", lock=change.lock, fence=change.fence, end=None)


def _shut(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is closed already
