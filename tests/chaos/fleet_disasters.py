"""Disasters of servers that fail over. Each ends when all servers are up and agree again."""

from __future__ import annotations

import random
import signal

from disasters import Disaster, Disasters, Fault, Pause
from servers import CannotStart, Server, await_until
from stores import Cluster, Fleet, Sentinels

TAKEN_OVER = 30.0  # seconds that a failover may take on a busy machine
WHOLE = 60.0
# A sentinel that was stopped for more than two seconds is in TILT mode for half a minute.
UNTILTED = 1.2


class FleetDisasters(Disasters):
    """The common part of the disasters of sentinels and clusters."""

    def __init__(self, fleet: Fleet, fault: Fault, pause: Pause) -> None:
        super().__init__(fault, pause)
        self.fleet = fleet

    def heal(self) -> None:
        await_until(self.fleet.is_whole, WHOLE, "the fleet")


class SentinelDisasters(FleetDisasters):
    fleet: Sentinels

    def all(self) -> list[Disaster]:
        return [self.kill_primary, self.stop_primary, self.fail_over_by_hand, self.kill_replica,
                self.stop_sentinel, *[self.bring_back_the_old] * 3]

    def present(self) -> Server:
        primary = self.fleet.primary()
        if primary is None:
            raise CannotStart("no primary, though there is no fault")
        return primary

    def await_other(self, than: Server) -> None:
        await_until(lambda: self.fleet.primary() not in (None, than), TAKEN_OVER, "failover")

    def kill_primary(self, _: random.Random) -> None:
        primary = self.present()
        with self.fault("primary killed", forgets=self.fleet.forgets):
            primary.kill()
            self.await_other(primary)
            primary.start()
            self.heal()

    def stop_primary(self, _: random.Random) -> None:
        primary = self.present()
        with self.fault("primary stopped", forgets=self.fleet.forgets):
            primary.signal(signal.SIGSTOP)
            self.await_other(primary)
            primary.signal(signal.SIGCONT)
            self.heal()

    def fail_over_by_hand(self, dice: random.Random) -> None:
        primary = self.present()
        with self.fault("manual failover", forgets=self.fleet.forgets):
            dice.choice(self.fleet.sentinels).ask("SENTINEL", "FAILOVER", "main")
            self.await_other(primary)
            self.heal()

    def kill_replica(self, dice: random.Random) -> None:
        primary = self.present()
        replica = dice.choice([one for one in self.fleet.members if one is not primary])
        with self.fault("replica killed"):
            replica.kill()
            self.pause(dice.choice((0.0, 2.0)))
            replica.start()
            self.heal()

    def stop_sentinel(self, dice: random.Random) -> None:
        with self.fault("sentinel stopped"):
            self.stop_for([dice.choice(self.fleet.sentinels)], dice.choice((0.5, UNTILTED)))
            self.heal()

    def bring_back_the_old(self, dice: random.Random) -> None:
        """A sentinel misses a failover. It starts again together with the old primary, which it
        still names as the primary, when there are no leases left on it. For a moment, this
        sentinel is the only one that replies."""
        primary, sentinel = self.present(), dice.choice(self.fleet.sentinels)
        with self.fault("primary stopped, sentinel killed", forgets=self.fleet.forgets):
            sentinel.kill()
            primary.signal(signal.SIGSTOP)
            self.await_other(primary)
        self.pause(self.fleet.ttl)
        with self.fault("old primary and a sentinel come back"):
            others = [one for one in self.fleet.sentinels if one is not sentinel]
            for other in others:
                other.signal(signal.SIGSTOP)
            primary.signal(signal.SIGCONT)
            sentinel.start()
            self.pause(UNTILTED)
            for other in others:
                other.signal(signal.SIGCONT)
            self.heal()


class ClusterDisasters(FleetDisasters):
    fleet: Cluster
    locks = ("alone", "pool", "pool", "pages", "line")

    def all(self) -> list[Disaster]:
        return [self.kill_owner, self.stop_owner, self.move_slot, self.move_slot, self.move_slot]

    def owner_of(self, lock: str) -> Server:
        owner = self.fleet.owner_of(lock)
        if owner is None:
            raise CannotStart(f"no member has the slot of {lock}, though there is no fault")
        return owner

    def kill_owner(self, dice: random.Random) -> None:
        lock = dice.choice(self.locks)
        owner = self.owner_of(lock)
        with self.fault("member killed", forgets=self.fleet.forgets):
            owner.kill()
            await_until(lambda: self.fleet.owner_of(lock) not in (None, owner), TAKEN_OVER, "failover")
            owner.start()
            self.heal()

    def stop_owner(self, dice: random.Random) -> None:
        """Stops a member for a moment, or until its replica takes over."""
        owner = self.owner_of(dice.choice(self.locks))
        with self.fault("member stopped", forgets=self.fleet.forgets):
            self.stop_for([owner], dice.choice((0.3, 5.0)))
            self.heal()

    def move_slot(self, dice: random.Random) -> None:
        lock = dice.choice(self.locks)
        source, slot = self.owner_of(lock), self.fleet.slot_of(lock)
        target = self.fleet.other_primary(source)
        if target is None:
            raise CannotStart("a cluster without a second primary")
        with self.fault("slot moved"):
            target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.ask("CLUSTER", "MYID"))
            source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.ask("CLUSTER", "MYID"))
            self.move_keys(source, target, slot, f"dlock:{{{lock}}}", dice)
            for server in [target, source, *self.fleet.members]:
                if self.fleet.role(server) == "master":
                    server.ask("CLUSTER", "SETSLOT", slot, "NODE", target.ask("CLUSTER", "MYID"))
            self.heal()

    def move_keys(self, source: Server, target: Server, slot: int, lock: str, dice: random.Random) -> None:
        """Moves keys one by one with pauses; the key of the lock itself first or last."""
        assert isinstance(target.address, tuple)
        for _ in range(100):
            keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100)
            if not isinstance(keys, list) or not keys:
                return
            is_first = dice.choice((True, False))
            keys.sort(key=lambda key: (key == lock) != is_first)
            source.ask("MIGRATE", "127.0.0.1", target.address[1], "", 0, 5000, "KEYS", keys[0])
            self.pause(dice.choice((0.02, 0.2, 0.5)))
