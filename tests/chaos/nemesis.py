"""Causes disasters for processes, networks and servers, chosen by a seed.

Two threads cause them: one for the processes of contenders, and one for servers and networks.
Each disaster is noted in the history before it begins, and again when it has healed.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from contenders import Contender
from disasters import Disaster, Disasters
from etcd import Etcd
from etcd_disasters import EtcdDisasters
from fleet_disasters import ClusterDisasters, SentinelDisasters
from history import History
from links import CALM, Weather
from postgres import OnPostgres
from postgres_disasters import PostgresDisasters
from quorum import Quorum
from quorum_disasters import QuorumDisasters
from server_disasters import ServerDisasters
from servers import CannotStart
from stores import Cluster, OneServer, Sentinels, Store
from witness import Witness

# The disasters of each kind of store; other kinds have none.
DISASTERS: dict[type[Store], Callable[..., Disasters]] = {
    OneServer: ServerDisasters, Sentinels: SentinelDisasters, Cluster: ClusterDisasters,
    Quorum: QuorumDisasters, Etcd: EtcdDisasters, OnPostgres: PostgresDisasters,
}
# How long after the end of a lease the queue of a lock is left in peace, to see whether its lock
# is granted (a bit more than verdict.UNTAKEN). BETWEEN is the time from one such pause to the
# next, because few disasters happen in a pause.
ASLEEP = 9.0
BETWEEN = 30.0
PATIENCE = 3.0  # seconds to wait for peace


class Nemesis:
    """Causes disasters until it is closed, and heals all of them."""

    def __init__(self, seed: int, store: Store, contenders: list[Contender], witness: Witness,
                 history: History) -> None:
        self.store = store
        self.history = history
        self.stops = threading.Event()
        self._contenders = contenders
        self._witness = witness
        self._faults = 0
        self._peace = threading.Lock()  # held during disasters of servers, and while there must be none
        self._line_in_peace_until = 0.0
        self._lock = threading.Lock()
        self.failure: str | None = None  # why it could not continue
        kinds = {"processes": self._process_disasters(), "servers": self._server_disasters()}
        self._threads = [
            threading.Thread(target=self._rage, args=(random.Random(f"{seed}/{name}"), disasters), name=name)
            for name, disasters in kinds.items() if disasters
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self.stops.set()
        for thread in self._threads:
            thread.join()

    @contextmanager
    def fault(self, name: str, forgets: bool = False, contender: int | None = None,
              servers: int | None = None) -> Iterator[None]:
        with self._lock:
            self._faults += 1
            number = self._faults
        self.history.note("fault", id=number, name=name, forgets=forgets, contender=contender,
                          servers=servers)
        try:
            yield
        finally:
            self.history.note("healed", id=number)

    def pause(self, seconds: float) -> None:
        self.stops.wait(seconds)

    def _rage(self, dice: random.Random, disasters: list[Disaster]) -> None:
        while not self.stops.wait(dice.uniform(0.3, 2.0)):
            try:
                dice.choice(disasters)(random.Random(dice.random()))
            except CannotStart as failure:
                self.failure = str(failure)
                return

    # --- Processes ---

    def _process_disasters(self) -> list[Disaster]:
        disasters = [self._stop, self._kill, self._tell_to_end, self._kill_two_in_line, self._kill_two_in_line,
                     self._stop_at_start]
        if self.store.kind != "local":
            disasters += [self._stop_guardian, self._kill_guardian, self._stop]
        return disasters

    def _running(self, dice: random.Random) -> Contender | None:
        """Returns a contender that runs a dlock, counted from a random one. Prefers holders,
        because there are many more waiters."""
        start = dice.randrange(len(self._contenders))
        running = [one for one in self._contenders[start:] + self._contenders[:start] if one.process]
        inside = [one for one in running if self._witness.is_inside(one.run)]
        return next(iter(inside if inside and dice.random() < 0.6 else running), None)

    def tell(self, contender: Contender, number: signal.Signals) -> bool:
        """Notes a signal and sends it to the dlock of a contender. False if it runs none."""
        process = contender.process
        if not process:
            return False
        self.history.note("signal", run=contender.run, signal=number.name.removeprefix("SIG"))
        process.send_signal(number)
        return True

    def _hold_still(self, contender: Contender, seconds: float) -> None:
        process = contender.process
        if not process or not self.tell(contender, signal.SIGSTOP):
            return
        run = contender.run
        self.pause(seconds)
        self.history.note("signal", run=run, signal="CONT")
        process.send_signal(signal.SIGCONT)

    def _stop(self, dice: random.Random) -> None:
        seconds = dice.choice((0.2, 1.0, self.store.ttl + 1.0, self.store.ttl + 1.0))
        contender = self._running(dice)
        if contender:
            self._hold_still(contender, seconds)

    def _stop_at_start(self, dice: random.Random) -> None:
        """Stops a dlock between its request for a lock and the start of the command, while
        replies are slow."""
        contender = self._contenders[dice.randrange(len(self._contenders))]
        late = dice.uniform(0.1, 0.4)
        if self.store.links:
            with self.fault("slow answers", contender=contender.number):
                self.store.links.turn(Weather(replies_late=late), contender.number)
                self._stop_next(contender, late / 2)
                self.store.links.turn(CALM, contender.number)
        else:
            self._stop_next(contender, 0.002)

    def _stop_next(self, contender: Contender, after: float) -> None:
        """Stops the next dlock of a contender `after` seconds from its start, past its lease."""
        before = contender.run
        if self._comes(lambda: contender.run != before and contender.process):
            time.sleep(max(0.0, contender.since + after - time.monotonic()))
            self._hold_still(contender, self.store.ttl + 0.5)

    def _kill(self, dice: random.Random) -> None:
        contender = self._running(dice)
        if contender:
            self.tell(contender, signal.SIGKILL)

    def _tell_to_end(self, dice: random.Random) -> None:
        contender = self._running(dice)
        if contender:
            self.tell(contender, dice.choice((signal.SIGTERM, signal.SIGINT)))

    def _kill_two_in_line(self, _: random.Random) -> None:
        """Kills the holder and the first waiter, and keeps both contenders away for some time.
        The other waiters have to notice it, because nothing else wakes them."""
        if time.monotonic() < self._line_in_peace_until or not self._peace.acquire(timeout=PATIENCE):
            return
        try:
            pair = self._holder_and_next()
            for contender in pair:
                contender.rests = self.store.ttl + ASLEEP
                self.tell(contender, signal.SIGKILL)
            if pair:
                self.pause(self.store.ttl + ASLEEP)
                self._line_in_peace_until = time.monotonic() + BETWEEN
        finally:
            self._peace.release()

    def _holder_and_next(self) -> list[Contender]:
        """Returns the holder and the first waiter of the patient ones, as soon as there are a
        holder and two waiters, often right after a hand-off. Returns [] after a time-out."""
        end = time.monotonic() + 3 * PATIENCE
        while time.monotonic() < end and not self.stops.is_set():
            line = [one for one in self._contenders if one.seat.kind == "patient" and one.process]
            holders = [one for one in line if self._witness.is_inside(one.run)]
            waiting = sorted((one for one in line if one not in holders), key=lambda one: one.since)
            if holders and len(waiting) >= 2:
                return [holders[0], waiting[0]]
            self.pause(0.1)
        return []

    def _guardian(self, contender: Contender) -> int | None:
        process = contender.process
        if not process or contender.seat.kind in ("hand", "operator"):
            return None
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        except OSError:
            return None
        return int(children[0]) if children else None

    def _signal_guardian(self, contender: Contender, number: signal.Signals) -> int | None:
        guardian = self._guardian(contender)
        if guardian is None:
            return None
        self.history.note("signal", run=contender.run, signal=number.name.removeprefix("SIG"), to="guardian")
        try:
            signal.pidfd_send_signal(os.pidfd_open(guardian), number)
        except ProcessLookupError:
            return None
        return guardian

    def _stop_guardian(self, dice: random.Random) -> None:
        seconds = dice.choice((0.5, self.store.ttl + 1.0))
        contender = self._running(dice)
        guardian = self._signal_guardian(contender, signal.SIGSTOP) if contender else None
        if contender and guardian:
            run = contender.run
            self.pause(seconds)
            self.history.note("signal", run=run, signal="CONT", to="guardian")
            if contender.run == run:
                self._signal_guardian(contender, signal.SIGCONT)

    def _kill_guardian(self, dice: random.Random) -> None:
        contender = self._running(dice)
        if contender:
            self._signal_guardian(contender, signal.SIGKILL)

    # --- Servers and networks ---

    def _server_disasters(self) -> list[Disaster]:
        kind = DISASTERS.get(type(self.store))
        if not kind:
            return []
        disasters = kind(self.store, self.fault, self.pause).all()
        if isinstance(self.store, OneServer):
            disasters += [self._ask_late] * 4
        return [self._undisturbed(one) for one in disasters]

    def _ask_late(self, _: random.Random) -> None:
        """Delivers the first request of a run when the server has forgotten its lease, another
        run has had the lock, and its command still runs. The lock is granted to it again, but
        it is not the grant of its command."""
        store = self.store
        assert isinstance(store, OneServer)
        late, eager = (one for one in self._contenders if one.seat.kind in ("late", "eager"))
        before = late.run
        with self.fault("a request delivered late", contender=late.number):
            store.links.turn(Weather(partition=True), late.number)
            is_sent = self._comes(lambda: late.run != before and late.process)
            self.pause(0.2)
            store.links.turn(Weather(holds_back=True), late.number)
            if is_sent and self._comes(lambda: self._witness.is_inside(late.run)):
                with self.fault("server forgets", forgets=True):
                    store.server.ask("FLUSHALL")
                    self._comes(lambda: self._witness.is_inside(eager.run))
                    self._comes(lambda: not self._witness.is_inside(eager.run))
            store.links.turn(CALM, late.number)

    def _comes(self, condition: Callable[[], object]) -> bool:
        """Waits until the condition holds. Returns False after a time-out."""
        end = time.monotonic() + 2 * PATIENCE
        while time.monotonic() < end and not self.stops.is_set():
            if condition():
                return True
            time.sleep(0.002)
        return False

    def _undisturbed(self, disaster: Disaster) -> Disaster:
        def disturb(dice: random.Random) -> None:
            with self._peace:
                disaster(dice)

        return disturb
