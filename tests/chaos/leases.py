"""Finds out when leases end on the servers, from the output of MONITOR.

A lease ends when the key of its lock expires. If the lock has more than one holder, the records
in the hash of holders say when. `Ledger` depends only on the lines of MONITOR.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MARKER = "dlock:shared"  # the value of a key whose lock has several holders
LATE = 0.5  # a stamp that differs more from the line's arrival is from a clock that was stepped

_line = re.compile(r'^\+?(\d+\.\d+) \[\d+ [^\]]*\] (".*")$')
_flush = re.compile(r'^\+?\d+\.\d+ \[[^\]]*\] "FLUSHALL"', re.IGNORECASE)
_word = re.compile(r'"((?:[^"\\]|\\.)*)"')
_key = re.compile(r"^dlock:\{([^}]*)\}(:h)?$")
# In what DUMP gives, a string follows its type, 0, and its length: 32 (a space), or that of MARKER.
_restored = re.compile(rf"\\x00(?: ([0-9a-f]{{32}})|\\x0c({MARKER}))")


@dataclass(frozen=True)
class Lease:
    lock: str
    fence: int
    end: float  # by the wall clock of chaos
    ends: tuple[float, ...] = ()  # in a quorum, on each server that has it


@dataclass
class Ledger:
    """The leases and their holders. One ledger for all servers, because a lease that one server
    grants is replicated to others, or moved to them with its slot."""

    # By server and token: a server that was stopped can still execute a claim that has been
    # granted elsewhere since, and grants it with its own fence.
    fence_of: dict[tuple[str, str], int] = field(default_factory=dict)
    last_fence: dict[str, int] = field(default_factory=dict)  # by token, of any server
    value_of: dict[tuple[str, str], str] = field(default_factory=dict)  # by server and lock
    last_value: dict[str, str] = field(default_factory=dict)  # by lock, of any server
    end_of: dict[str, float] = field(default_factory=dict)  # by token, for locks with one holder

    def read(self, server: str, line: str, arrived: float) -> Lease | None:
        """Returns the lease that a line grants or renews, or None."""
        parts = _line.match(line)
        words = _word.findall(parts[2]) if parts else []
        key = _key.match(words[1]) if len(words) > 1 else None
        if not parts or not key:
            return None
        stamp = float(parts[1])
        clock_is_ahead = stamp - arrived if abs(stamp - arrived) > LATE else 0.0
        now = stamp - clock_is_ahead
        command, lock = words[0].upper(), key[1]
        if key[2]:
            if command in ("HSET", "HMSET"):
                return self._record(server, lock, words[2], words[3], clock_is_ahead)
            return None
        if command == "SET" and len(words) >= 5:
            self.value_of[server, lock] = self.last_value[lock] = words[2]
            self.end_of[words[2]] = _moment(words[3], words[4], now, clock_is_ahead)
        elif command in ("RESTORE", "RESTORE-ASKING"):  # with its slot
            value = _restored.match(words[3]) if len(words) > 3 else None
            if value:
                self.value_of[server, lock] = value[1] or value[2]
            else:
                self.value_of.pop((server, lock), None)
        elif command in ("PEXPIRE", "PEXPIREAT"):
            token = self.value_of.get((server, lock)) or self.last_value.get(lock, MARKER)
            unit = "PX" if command == "PEXPIRE" else "PXAT"
            self.end_of[token] = _moment(unit, words[2], now, clock_is_ahead)
            fence = self._fence(server, token)
            if fence is not None and token != MARKER:
                return Lease(lock, fence, self.end_of[token])
        return None

    def _fence(self, server: str, token: str) -> int | None:
        return self.fence_of.get((server, token), self.last_fence.get(token))

    def look(self, server: str, lock: str, value: str, end: float) -> Lease | None:
        """Returns the lease of a key that was read. A lock with several holders gives None."""
        self.value_of[server, lock] = value
        fence = self._fence(server, value)
        if fence is None:
            return None
        self.end_of[value] = max(end, self.end_of.get(value, end))
        return Lease(lock, fence, self.end_of[value])

    def _record(self, server: str, lock: str, token: str, record: str, ahead: float) -> Lease | None:
        fields = record.split(" ", 6)
        if len(fields) < 7 or fields[5] == "p":  # a promise is not a grant
            return None
        fence = self.fence_of[server, token] = self.last_fence[token] = int(fields[2])
        if self.last_value.get(lock) == token:
            return Lease(lock, fence, self.end_of[token])
        return Lease(lock, fence, int(fields[4]) / 1e6 - ahead)


class MajorityLedger:
    """The same for independent servers: a lease lasts while a majority of them have it.

    For its end, a server that forgets a lease, or whose clock steps, counts as if it still had it.
    This makes no difference while no more servers do so than the strength allows.
    """

    def __init__(self, servers: int) -> None:
        self._most = servers // 2 + 1
        self._ledgers: dict[str, Ledger] = {}  # by server
        self._ends: dict[tuple[str, int], dict[str, float]] = {}  # by lock and fence, then by server
        self._forgotten: dict[tuple[str, int], set[str]] = {}  # the servers, by lock and fence

    def read(self, server: str, line: str, arrived: float) -> Lease | None:
        if _flush.match(line):
            self.forget(server)
        return self._merged(server, self._of(server).read(server, line, arrived))

    def look(self, server: str, lock: str, value: str, end: float) -> Lease | None:
        return self._merged(server, self._of(server).look(server, lock, value, end))

    def forget(self, server: str, lock: str | None = None) -> None:
        """Notes that a server has none of these leases."""
        for key, ends in self._ends.items():
            if lock in (None, key[0]) and server in ends:
                self._forgotten.setdefault(key, set()).add(server)

    def _of(self, server: str) -> Ledger:
        return self._ledgers.setdefault(server, Ledger())

    def _merged(self, server: str, lease: Lease | None) -> Lease | None:
        if lease is None:
            return None
        ends = self._ends.setdefault((lease.lock, lease.fence), {})
        ends[server] = lease.end
        forgotten = self._forgotten.get((lease.lock, lease.fence), set())
        forgotten.discard(server)
        if len(ends) < self._most:
            return None
        end = sorted(ends.values(), reverse=True)[self._most - 1]
        return Lease(lease.lock, lease.fence, end, tuple(ends[one] for one in ends if one not in forgotten))


def _moment(unit: str, number: str, now: float, ahead: float) -> float:
    if unit.upper() == "PX":
        return now + int(number) / 1000
    return int(number) / 1000 - ahead
