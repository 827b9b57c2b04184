"""Disasters of a quorum's servers, within what is promised of them."""

from __future__ import annotations

import random

from disasters import BadNetworks, Disaster, Disasters, Fault, Pause
from history import CLOCK
from links import CALM, Weather
from quorum import Quorum
from servers import Server


class QuorumDisasters(Disasters):
    """Behind each, those who have a lease get time to have it everywhere again: so no more
    servers forget one than its strength says."""

    def __init__(self, store: Quorum, fault: Fault, pause: Pause) -> None:
        super().__init__(fault, pause)
        self._store = store
        self._networks = BadNetworks(store.links, len(store.seats), len(store.servers), store.ttl, fault, pause)

    def all(self) -> list[Disaster]:
        return [self.weather] * 3 + [self.slow_then_gone, self.stop, self.stop, self.restart, self.forget, self.step_clocks, *[self.restart_most] * 3]

    def some(self, dice: random.Random) -> list[Server]:
        """As many as may fail, or fewer."""
        return dice.sample(self._store.servers, dice.randint(1, self._store.strength))

    def recover(self) -> None:
        """A lease is renewed, and set up where it is missing, three times in its time."""
        self._store.await_votes()
        self.pause(self._store.ttl / 2)

    def weather(self, dice: random.Random) -> None:
        self._networks.weather(dice)
        self.recover()

    def slow_then_gone(self, dice: random.Random) -> None:
        self._networks.slow_then_gone(dice)
        self.recover()

    def stop(self, dice: random.Random) -> None:
        """Some, or too many: then nothing is granted, and nobody dies too late."""
        servers = dice.choice((self.some(dice), self.some(dice), self._store.servers[:self._store.most]))
        with self.fault("servers stopped"):
            self.stop_for([*servers], dice.choice((0.3, 1.5, self._store.ttl + 1.0)))
            self.recover()

    def restart(self, dice: random.Random) -> None:
        """Nothing is on a disk; but one that was just started has no vote."""
        servers = self.some(dice)
        with self.fault("servers restarted", servers=len(servers)):
            for server in servers:
                server.kill()
            self.pause(dice.choice((0.0, 1.0, self._store.ttl)))
            for server in servers:
                server.start()
            self.recover()

    def restart_most(self, dice: random.Random) -> None:
        """At once, so that they come back while leases last of which they know nothing, and
        half of the contenders hear of nothing."""
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
