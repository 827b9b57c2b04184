"""Disasters of the servers of a quorum, within the limits of its promises."""

from __future__ import annotations

import random

from disasters import BadNetworks, Disaster, Disasters, Fault, Pause
from history import CLOCK
from links import CALM, Weather
from quorum import Quorum
from servers import Server


class QuorumDisasters(Disasters):
    """After each disaster, holders get time to set up their leases on all servers again, so that
    no more servers forget a lease than its strength allows."""

    def __init__(self, store: Quorum, fault: Fault, pause: Pause) -> None:
        super().__init__(fault, pause)
        self._store = store
        self._networks = BadNetworks(store.links, len(store.seats), len(store.servers), store.ttl, fault, pause)

    def all(self) -> list[Disaster]:
        return [self.weather] * 3 + [self.slow_then_gone, self.stop, self.stop, self.restart, self.forget, self.step_clocks, *[self.restart_most] * 3]

    def some(self, dice: random.Random) -> list[Server]:
        """Returns at most as many servers as may fail."""
        return dice.sample(self._store.servers, dice.randint(1, self._store.strength))

    def recover(self) -> None:
        """A holder renews its lease, and sets it up where it is missing, three times in each TTL."""
        self._store.await_votes()
        self.pause(self._store.ttl / 2)

    def weather(self, dice: random.Random) -> None:
        self._networks.weather(dice)
        self.recover()

    def slow_then_gone(self, dice: random.Random) -> None:
        self._networks.slow_then_gone(dice)
        self.recover()

    def stop(self, dice: random.Random) -> None:
        """Stops some servers, or too many: then nothing is granted, and commands die in time."""
        servers = dice.choice((self.some(dice), self.some(dice), self._store.servers[:self._store.most]))
        with self.fault("servers stopped"):
            self.stop_for([*servers], dice.choice((0.3, 1.5, self._store.ttl + 1.0)))
            self.recover()

    def restart(self, dice: random.Random) -> None:
        """Restarted servers have no data, but no vote either."""
        servers = self.some(dice)
        with self.fault("servers restarted", servers=len(servers)):
            for server in servers:
                server.kill()
            self.pause(dice.choice((0.0, 1.0, self._store.ttl)))
            for server in servers:
                server.start()
            self.recover()

    def restart_most(self, dice: random.Random) -> None:
        """Restarts a majority at once, so that leases still last that these servers have forgotten.
        Half of the contenders are cut off and do not notice."""
        servers = self._store.servers[:self._store.most]
        cut_off = dice.sample(range(len(self._store.seats)), len(self._store.seats) // 2)
        with self.fault("most servers restarted", servers=len(servers)):
            for contender in cut_off:
                self._store.links.turn(Weather(partition=True), contender)
            for server in servers:
                server.kill()
                server.start()
            self.pause(self._store.ttl)
            for contender in cut_off:
                self._store.links.turn(CALM, contender)
            self.recover()

    def forget(self, dice: random.Random) -> None:
        servers = self.some(dice)
        with self.fault("servers forget", forgets=True, servers=len(servers)):
            for server in servers:
                server.ask("FLUSHALL")
            self.recover()

    def step_clocks(self, dice: random.Random) -> None:
        servers = self.some(dice)
        with self.fault(CLOCK, forgets=True, servers=len(servers)):
            self._set(servers, dice.choice((-2000, 2000)))
            self.pause(dice.uniform(1.0, self._store.ttl))
            self._set(servers, 0)
            self.recover()

    def _set(self, servers: list[Server], milliseconds: int) -> None:
        for server in servers:
            assert server.clock is not None
            server.clock.step(milliseconds)
