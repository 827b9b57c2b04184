"""The base of all disasters of servers, and disasters of networks."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from links import CALM, Links, Weather

Disaster = Callable[[random.Random], None]
Pause = Callable[[float], None]  # waits for some seconds, or until the end of the run


class Fault(Protocol):
    """Notes in the history when a fault begins and when it has healed. `forgets`: the store may
    grant a lock that is held. `servers`: how many servers of a quorum lose their data. Without
    `forgets`, these grant nothing until the leases that they forgot have expired."""

    def __call__(self, name: str, forgets: bool = False, contender: int | None = None,
                 servers: int | None = None) -> AbstractContextManager[None]: ...


class Process(Protocol):
    """A server that can be stopped."""

    def signal(self, number: int) -> None: ...


class Disasters:
    """The disasters of one kind of store."""

    def __init__(self, fault: Fault, pause: Pause) -> None:
        self.fault = fault
        self.pause = pause

    def all(self) -> list[Disaster]:
        """Returns the disasters to choose from. Frequent ones are in the list more than once."""
        raise NotImplementedError

    def stop_for(self, servers: list[Process], seconds: float) -> None:
        for server in servers:
            server.signal(signal.SIGSTOP)
        self.pause(seconds)
        for server in servers:
            server.signal(signal.SIGCONT)


class BadNetworks(Disasters):
    """Disasters for contenders that have their own networks to each of `servers` servers."""

    def __init__(self, links: Links, contenders: int, servers: int, ttl: float, fault: Fault, pause: Pause) -> None:
        super().__init__(fault, pause)
        self._links = links
        self._contenders = contenders
        self._servers = servers
        self._ttl = ttl

    def weather(self, dice: random.Random) -> None:
        """Disturbs the networks of one contender or of all, to one server or to all."""
        name, weather = dice.choice((
            ("requests late", Weather(requests_late=dice.uniform(0.1, 0.7))),
            ("replies late", Weather(replies_late=dice.uniform(0.1, 0.7))),
            ("partition", Weather(partition=True)),
            ("connections broken off", Weather(refuses=True)),
            ("replies lost", Weather(loses_replies=True)),
            ("dripping", Weather(drips=True)),
        ))
        whom = dice.choice([None, *range(self._contenders)])
        where = dice.choice([None, *range(self._servers)]) if self._servers > 1 else None
        seconds = dice.choice((0.5, 1.5, self._ttl + 1.0))
        with self.fault(name, contender=whom):
            self._links.turn(weather, whom, where)
            self.pause(seconds)
            self._links.turn(CALM, whom, where)

    def slow_then_gone(self, dice: random.Random) -> None:
        """Fails as networks often do: first replies are late, then nothing arrives."""
        late = dice.choice((0.35, 0.45, 0.55, 0.7))
        with self.fault("slow, then gone"):
            self._links.turn(Weather(replies_late=late))
            self.pause(self._ttl * dice.uniform(0.5, 1.2))
            self._links.turn(dice.choice((CALM, Weather(replies_late=late))))
            self.pause(dice.choice((0.0, self._ttl * dice.uniform(0.1, 0.4))))
            self._links.turn(Weather(partition=True))
            self.pause(self._ttl + 1.0)
            self._links.turn(CALM)
