"""Disasters of PostgreSQL servers, and of the networks between contenders and them."""

from __future__ import annotations

import random
import signal

from disasters import BadNetworks, Disaster, Disasters, Fault, Pause
from history import CLOCK
from postgres import OnPostgres, Postgres, Session, SqlError
from servers import CannotStart

OURS = "usename = 'app' AND pid <> pg_backend_pid()"


class PostgresDisasters(Disasters):
    def __init__(self, store: OnPostgres, fault: Fault, pause: Pause) -> None:
        super().__init__(fault, pause)
        self._store = store
        self._networks = BadNetworks(store.links, len(store.seats), len(store.members), store.ttl, fault, pause)

    def all(self) -> list[Disaster]:
        found = [self._networks.weather] * 4 + [self._networks.slow_then_gone] * 2 + \
            [self.kill, self.kill, self.stop, self.stop, self.end_sessions, self.end_sessions, self.cancel, self.lock_rows,
             self.forget]
        if len(self._store.members) == 1:
            return found + [self.step_clock]
        return found + [self.promote, self.promote, self.bring_back_the_old, self.bring_back_the_old, self.stop_standbys]

    def present(self) -> Postgres:
        primary = self._store.primary()
        if primary is None:
            raise CannotStart("no primary, though there is no fault")
        return primary

    def kill(self, dice: random.Random) -> None:
        server = self.present()
        with self.fault(f"{server.name} killed"):
            server.kill()
            self.pause(dice.choice((0.0, 0.5, self._store.ttl)))
            server.start()
            self._store.await_whole()

    def stop(self, dice: random.Random) -> None:
        server = self.present()
        with self.fault(f"{server.name} stopped"):
            self.stop_for([server], dice.choice((0.5, 2.0, self._store.ttl + 1.0)))
            self._store.await_whole()

    def end_sessions(self, dice: random.Random) -> None:
        """Ends all sessions of dlock, again and again."""
        with self.fault("sessions ended"):
            for _ in range(dice.choice((1, 5))):
                self.present().ask(f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {OURS}")
                self.pause(dice.uniform(0.1, 1.0))

    def cancel(self, _: random.Random) -> None:
        """Cancels what sessions are doing, for a second."""
        with self.fault("statements cancelled"):
            for _ in range(20):
                self.present().ask("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity "
                                   f"WHERE {OURS} AND state <> 'idle'")
                self.pause(0.05)

    def lock_rows(self, dice: random.Random) -> None:
        """Keeps the rows of all locks, as a client that was stopped inside a step could."""
        with self.fault("rows locked"):
            try:
                with Session(self.present().path) as session:
                    session.query("BEGIN; SELECT FROM dlock.lock FOR UPDATE")
                    self.pause(dice.choice((0.3, 1.5, self._store.ttl + 1.0)))
            except SqlError:
                pass  # a session of ours may end with the others

    def forget(self, _: random.Random) -> None:
        """Deletes all locks. Holders notice this at their next renewal."""
        with self.fault("server forgets", forgets=True):
            self.present().ask("DELETE FROM dlock.lock")
            self.pause(0.2)

    def step_clock(self, dice: random.Random) -> None:
        """Leases end too early or too late, both when the clock steps and when it steps back."""
        clock = self._store.members[0].clock
        assert clock is not None
        with self.fault(CLOCK, forgets=True):
            clock.step(dice.choice((-2000, 2000)))
            self.pause(dice.uniform(1.0, 3.0))
            clock.step(0)
            self.pause(3.0)

    # --- Standbys ---

    def _promote_instead_of(self, old: Postgres) -> None:
        """Promotes the standby that has received most, and makes the other one follow it. Neither
        must receive more meanwhile: it could not follow then."""
        standbys = [one for one in self._store.members if one is not old]
        if any(one.ask("SELECT 1") is None for one in standbys):
            raise CannotStart("a standby does not reply")
        for standby in standbys:
            standby.follow(None)
        received = [one.ask("SELECT (pg_last_wal_receive_lsn() - '0/0')::text") for one in standbys]
        if None in received:
            raise CannotStart("a standby does not reply")
        new, other = sorted(standbys, key=lambda one: float(received[standbys.index(one)][0][0]), reverse=True)
        new.ask("SELECT pg_promote()")
        other.follow(new)

    def promote(self, dice: random.Random) -> None:
        old = self.present()
        with self.fault(f"{old.name} killed, another promoted"):
            old.kill()
            self.pause(dice.choice((0.0, 1.0)))
            self._promote_instead_of(old)
            old.copy(self.present())
            old.start()
            self._store.await_whole()

    def bring_back_the_old(self, dice: random.Random) -> None:
        """Two primaries: the old one continues when another has been promoted."""
        old = self.present()
        with self.fault(f"{old.name} stopped, another promoted, both up"):
            old.signal(signal.SIGSTOP)
            self._promote_instead_of(old)
            old.signal(signal.SIGCONT)
            self.pause(dice.choice((1.0, self._store.ttl + 1.0)))
            old.kill()
            old.copy(next(one for one in self._store.members if one is not old and one.ask("SELECT pg_is_in_recovery()") == [["f"]]))
            old.start()
            self._store.await_whole()

    def stop_standbys(self, dice: random.Random) -> None:
        """No commit is confirmed."""
        primary = self.present()
        with self.fault("standbys stopped"):
            self.stop_for([one for one in self._store.members if one is not primary],
                          dice.choice((0.5, 2.0, self._store.ttl + 1.0)))
            self._store.await_whole()
