"""Disasters of servers of which another takes over. Each ends when the fleet is whole."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from servers import CannotStart, Server, await_until
from stores import Cluster, Sentinels

if TYPE_CHECKING:
    from nemesis import Nemesis

Disaster = Callable[[random.Random], None]
TAKEN_OVER = 30.0  # seconds that a failover may take on a busy machine
WHOLE = 60.0


def sentinel_disasters(nemesis: Nemesis, fleet: Sentinels) -> list[Disaster]:
    def await_other(than: Server) -> None:
        await_until(lambda: fleet.primary() not in (None, than), TAKEN_OVER, "failover")

    def heal() -> None:
        await_until(fleet.is_whole, WHOLE, "the fleet")

    def present() -> Server:
        primary = fleet.primary()
        if primary is None:
            raise CannotStart("no primary where all is well")
        return primary

    def kill_primary(_: random.Random) -> None:
        primary = present()
        with nemesis.fault("primary killed"):
            primary.kill()
            await_other(primary)
            primary.start()
            heal()

    def stop_primary(_: random.Random) -> None:
        primary = present()
        with nemesis.fault("primary stopped"):
            primary.signal(signal.SIGSTOP)
            await_other(primary)
            primary.signal(signal.SIGCONT)
            heal()

    def fail_over_by_hand(dice: random.Random) -> None:
        primary = present()
        with nemesis.fault("failover by hand"):
            dice.choice(fleet.sentinels).ask("SENTINEL", "FAILOVER", "main")
            await_other(primary)
            heal()

    def kill_replica(dice: random.Random) -> None:
        replica = dice.choice([one for one in fleet.members if one is not present()])
        with nemesis.fault("replica killed"):
            replica.kill()
            nemesis.pause(dice.choice((0.0, 2.0)))
            replica.start()
            heal()

    def stop_sentinel(dice: random.Random) -> None:
        sentinel = dice.choice(fleet.sentinels)
        with nemesis.fault("sentinel stopped"):
            sentinel.signal(signal.SIGSTOP)
            nemesis.pause(dice.choice((0.5, 2.0)))
            sentinel.signal(signal.SIGCONT)
            heal()

    def believe_old_primary(dice: random.Random) -> None:
        """One sentinel misses a failover, and comes back together with the old primary."""
        primary, sentinel = present(), dice.choice(fleet.sentinels)
        with nemesis.fault("old primary and a sentinel come back"):
            sentinel.kill()
            primary.signal(signal.SIGSTOP)
            await_other(primary)
            primary.signal(signal.SIGCONT)
            sentinel.start()
            heal()

    return [kill_primary, stop_primary, fail_over_by_hand, kill_replica, stop_sentinel, believe_old_primary]


def cluster_disasters(nemesis: Nemesis, fleet: Cluster) -> list[Disaster]:
    locks = ("alone", "pool", "pool", "pages", "line")

    def owner_of(lock: str) -> Server:
        owner = fleet.owner_of(lock)
        if owner is None:
            raise CannotStart(f"nobody has the slot of {lock} where all is well")
        return owner

    def await_other(lock: str, than: Server) -> None:
        await_until(lambda: fleet.owner_of(lock) not in (None, than), TAKEN_OVER, "failover")

    def heal() -> None:
        await_until(fleet.is_whole, WHOLE, "the cluster")

    def kill_owner(dice: random.Random) -> None:
        lock = dice.choice(locks)
        owner = owner_of(lock)
        with nemesis.fault("member killed"):
            owner.kill()
            await_other(lock, owner)
            owner.start()
            heal()

    def stop_owner(dice: random.Random) -> None:
        lock = dice.choice(locks)
        owner = owner_of(lock)
        with nemesis.fault("member stopped"):
            owner.signal(signal.SIGSTOP)
            nemesis.pause(dice.choice((0.3, 5.0)))
            owner.signal(signal.SIGCONT)
            heal()

    def move_slot(dice: random.Random) -> None:
        """Key by key, with the lock's own first or last, and time in between."""
        lock = dice.choice(locks)
        source, slot = owner_of(lock), fleet.slot_of(lock)
        target = fleet.other_primary(source)
        if target is None:
            raise CannotStart("a cluster without a second primary")
        with nemesis.fault("slot moved"):
            target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.ask("CLUSTER", "MYID"))
            source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.ask("CLUSTER", "MYID"))
            first = f"dlock:{{{lock}}}"
            for _ in range(100):
                keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100)
                if not isinstance(keys, list) or not keys:
                    break
                keys.sort(key=lambda key: (key != first) == dice.choice((True, False)))
                assert isinstance(target.address, tuple)
                source.ask("MIGRATE", "127.0.0.1", target.address[1], "", 0, 5000, "KEYS", keys[0])
                nemesis.pause(dice.choice((0.02, 0.2, 0.5)))
            for server in [target, source, *fleet.members]:
                if fleet.role(server) == "master":
                    server.ask("CLUSTER", "SETSLOT", slot, "NODE", target.ask("CLUSTER", "MYID"))
            heal()

    return [kill_owner, stop_owner, move_slot, move_slot, move_slot]
