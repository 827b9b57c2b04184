"""Disasters of a single server, and of the networks to it."""

from __future__ import annotations

import random

from disasters import BadNetworks, Disaster, Disasters, Fault, Pause
from history import CLOCK
from stores import OneServer


class ServerDisasters(Disasters):
    def __init__(self, store: OneServer, fault: Fault, pause: Pause) -> None:
        super().__init__(fault, pause)
        self._store = store
        self._server = store.server
        self._networks = BadNetworks(store.links, len(store.seats), 1, store.ttl, fault, pause)

    def all(self) -> list[Disaster]:
        return [self._networks.weather] * 4 + [self._networks.slow_then_gone] * 3 + \
            [self.kill, self.kill, self.stop, self.stop, self.forget, self.forget, self.step_clock]

    def kill(self, dice: random.Random) -> None:
        with self.fault("server killed"):
            self._server.kill()
            self.pause(dice.choice((0.0, 0.5, self._store.ttl)))
            self._server.start()

    def stop(self, dice: random.Random) -> None:
        with self.fault("server stopped"):
            self.stop_for([self._server], dice.choice((0.3, 1.0, self._store.ttl + 1.0)))

    def forget(self, _: random.Random) -> None:
        """Deletes all keys. Holders notice this at their next renewal."""
        with self.fault("server forgets", forgets=True):
            self._server.ask("FLUSHALL")
            self.pause(0.2)

    def step_clock(self, dice: random.Random) -> None:
        """Leases end too early or too late, both when the clock steps and when it steps back."""
        assert self._server.clock is not None
        with self.fault(CLOCK, forgets=True):
            self._server.clock.step(dice.choice((-2000, 2000)))
            self.pause(dice.uniform(1.0, 3.0))
            self._server.clock.step(0)
            self.pause(3.0)
