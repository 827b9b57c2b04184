"""When leases of locks begin and end on etcd, by what its members tell of the keys."""

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
    """Of a lease of a lock: that it is held now, or that it has ended though nobody has
    given the lock back."""

    lock: str
    fence: int
    ended: bool


def changes_in(answer: dict[str, Any], locks: list[str]) -> Iterator[Change]:
    """What a message of a watch says. A holder's key goes together with a note on its run
    if it was given back, and alone with its lease."""
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
    """Anybody may write there, and a lock that is not dlock's is none of a contender."""
    try:
        entry = json.loads(base64.b64decode(value))
    except ValueError:
        return False
    return isinstance(entry, dict) and entry.get("standing") in ("holds", "broken")


class Observer:
    """Notes in the history which leases are granted, and which end by themselves. All
    members tell, so that one that is away delays nothing; what is heard first is noted."""

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
            time.sleep(0.05)  # until it is there again

    def _watch(self, connection: http.client.HTTPConnection, member: tuple[str, int], revision: int) -> int:
        """Until the connection breaks. Returns from which revision on there is more to hear."""
        connection.connect()
        self._keep(member, connection.sock)
        wanted = {"key": base64.b64encode(SPACE.encode()).decode(),
                  "range_end": base64.b64encode(b"dlock0").decode(),
                  "start_revision": str(revision), "prev_kv": True}
        connection.request("POST", "/v3/watch", json.dumps({"create_request": wanted}))
        response = connection.getresponse()
        connection.sock.settimeout(None)  # a member that is stopped says nothing for long
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
