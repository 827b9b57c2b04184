"""Disasters of the members of etcd, and of the networks between contenders and members."""

from __future__ import annotations

import random

from disasters import BadNetworks, Disaster, Disasters, Fault, Pause
from etcd import Etcd, Member
from links import CALM, Weather


class EtcdDisasters(Disasters):
    def __init__(self, store: Etcd, fault: Fault, pause: Pause) -> None:
        super().__init__(fault, pause)
        self._store = store
        self._networks = BadNetworks(store.links, len(store.seats), len(store.members), store.ttl, fault, pause)

    def all(self) -> list[Disaster]:
        found = [self._networks.weather] * 3 + [self._networks.slow_then_gone, self.kill, self.kill, self.stop,
                                                self.stop, self.restart_all, self.revoke, self.revoke]
        return found + [self.cut_off] * 3 + [self.stop_amid_reads] * 3 if len(self._store.members) > 1 else found

    def one(self, dice: random.Random) -> Member:
        """Returns a member; often the leader."""
        leader = self._store.leader()
        return leader if leader and dice.random() < 0.7 else dice.choice(self._store.members)

    def kill(self, dice: random.Random) -> None:
        member = self.one(dice)
        with self.fault(f"{member.name} killed"):
            member.kill()
            self.pause(dice.choice((0.0, 2.0, self._store.ttl)))
            member.start()
            self._store.await_whole()

    def stop(self, dice: random.Random) -> None:
        """Stops a member for a moment, or until another one leads."""
        member = self.one(dice)
        with self.fault(f"{member.name} stopped"):
            self.stop_for([member], dice.choice((0.5, 3.0, self._store.ttl + 2.0)))
            self._store.await_whole()

    def stop_amid_reads(self, dice: random.Random) -> None:
        """Stops the leader while it answers reads, for longer than an election and a lease. Then
        it continues, and for another lease some contenders reach no other member."""
        member = self._store.leader() or self.one(dice)
        number = self._store.members.index(member)
        inside = dice.sample(range(len(self._store.seats)), len(self._store.seats) // 2)
        with self.fault(f"{member.name} stopped amid reads"):
            self._keep_to(number, inside, Weather(partition=True))
            readers = [member.begin_to_read() for _ in range(30)]
            self.stop_for([member], self._store.ttl + 2.0)
            self.pause(self._store.ttl)
            for reader in readers:
                reader.close()
            self._keep_to(number, inside, CALM)
            self._store.await_whole()

    def _keep_to(self, number: int, inside: list[int], weather: Weather) -> None:
        for contender in inside:
            for server in range(len(self._store.members)):
                if server != number:
                    self._store.links.turn(weather, contender, server)

    def cut_off(self, dice: random.Random) -> None:
        """Separates a member and some contenders from the other members. The other contenders
        do not reach that member."""
        member = self.one(dice)
        number = self._store.members.index(member)
        inside = dice.sample(range(len(self._store.seats)), len(self._store.seats) // 2)
        with self.fault(f"{member.name} cut off with clients"):
            self._separate(number, inside, Weather(partition=True))
            self.pause(dice.choice((0.5, 3.0, self._store.ttl + 2.0)))
            self._separate(number, inside, CALM)
            self._store.await_whole()

    def _separate(self, number: int, inside: list[int], weather: Weather) -> None:
        self._store.peer_links.turn_around(number, weather)
        for contender in range(len(self._store.seats)):
            for server in range(len(self._store.members)):
                if (contender in inside) != (server == number):
                    self._store.links.turn(weather, contender, server)

    def restart_all(self, dice: random.Random) -> None:
        with self.fault("all members restarted"):
            for member in self._store.members:
                member.kill()
            self.pause(dice.choice((0.0, self._store.ttl)))
            for member in self._store.members:
                member.start()
            self._store.await_whole()

    def revoke(self, dice: random.Random) -> None:
        """Revokes the lease of a holder or waiter, as a user could by hand."""
        with self.fault("lease revoked", forgets=True):
            entries = self._store.entries()
            if entries:
                self._store.members[0].ask("/v3/lease/revoke", ID=dice.choice(entries)["lease"])
            self.pause(0.2)
