"""What all disasters of servers have: how they are noted, and how they wait; and bad networks."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from links import CALM, Links, Weather

Disaster = Callable[[random.Random], None]
Pause = Callable[[float], None]  # waits so many seconds, or until all is over


class Fault(Protocol):
    """Notes a fault in the history, and that all is well again behind it. `forgets`: the
    store may grant again what it has granted. `servers`: so many of a quorum lose what they
    know, and if that is all they do, they let nobody in until it does not matter."""

    def __call__(self, name: str, forgets: bool = False, contender: int | None = None,
                 servers: int | None = None) -> AbstractContextManager[None]: ...


class Process(Protocol):
    """A server, as far as it is only to be stopped."""

    def signal(self, number: int) -> None: ...


class Disasters:
    """Those of one kind of store."""

    def __init__(self, fault: Fault, pause: Pause) -> None:
        self.fault = fault
        self.pause = pause

    def all(self) -> list[Disaster]:
        """From which one is chosen each time: some are there more than once."""
        raise NotImplementedError

    def stop_for(self, servers: list[Process], seconds: float) -> None:
        for server in servers:
            server.signal(signal.SIGSTOP)
        self.pause(seconds)
        for server in servers:
            server.signal(signal.SIGCONT)


class BadNetworks(Disasters):
    """Of contenders each of which has its own networks to `servers` servers."""

    def __init__(self, links: Links, contenders: int, servers: int, ttl: float, fault: Fault, pause: Pause) -> None:
        super().__init__(fault, pause)
        self._links = links
        self._contenders = contenders
        self._servers = servers
        self._ttl = ttl

    def weather(self, dice: random.Random) -> None:
        """For one contender or for all of them, to one server or to all of them."""
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
        """As networks fail: first everything takes longer, then nothing comes through."""
        late = dice.choice((0.35, 0.45, 0.55, 0.7))
        with self.fault("slow, then gone"):
            self._links.turn(Weather(replies_late=late))
            self.pause(self._ttl * dice.uniform(0.5, 1.2))
            self._links.turn(dice.choice((CALM, Weather(replies_late=late))))
            self.pause(dice.choice((0.0, self._ttl * dice.uniform(0.1, 0.4))))
            self._links.turn(Weather(partition=True))
            self.pause(self._ttl + 1.0)
            self._links.turn(CALM)
