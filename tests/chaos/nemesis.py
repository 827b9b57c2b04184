"""What goes wrong: disasters for processes, networks and servers, chosen by a seed.

Two threads cause them, one for the processes of contenders and one for what is between
them and their locks. Each disaster is noted in the history before it begins, and when all
is as good as new.
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
from quorum import Quorum
from quorum_disasters import QuorumDisasters
from server_disasters import ServerDisasters
from servers import CannotStart
from stores import Cluster, OneServer, Sentinels, Store
from witness import Witness

# The disasters of a kind of store, of which the others have none.
DISASTERS: dict[type[Store], Callable[..., Disasters]] = {
    OneServer: ServerDisasters, Sentinels: SentinelDisasters, Cluster: ClusterDisasters,
    Quorum: QuorumDisasters, Etcd: EtcdDisasters,
}
# How long beyond a lease a line is left alone, so that it can be seen whether it goes on
# (verdict.UNTAKEN, and some); and from one such time to the next, for much is left out in it.
ASLEEP = 9.0
BETWEEN = 30.0
PATIENCE = 3.0  # seconds for which peace is waited for


class Nemesis:
    """Breaks things until it is told to stop, and leaves nothing broken."""

    def __init__(self, seed: int, store: Store, contenders: list[Contender], witness: Witness,
                 history: History) -> None:
        self.store = store
        self.history = history
        self.stops = threading.Event()
        self._contenders = contenders
        self._witness = witness
        self._faults = 0
        self._peace = threading.Lock()  # held by whoever does something to servers, or wants nothing done
        self._line_in_peace_until = 0.0
        self._lock = threading.Lock()
        self.failure: str | None = None  # why nothing more could be tried
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
        """One of those that run a dlock just now, the first behind where the dice point;
        mostly one that has a lock, for many more wait."""
        start = dice.randrange(len(self._contenders))
        running = [one for one in self._contenders[start:] + self._contenders[:start] if one.process]
        inside = [one for one in running if self._witness.is_inside(one.run)]
        return next(iter(inside if inside and dice.random() < 0.6 else running), None)

    def tell(self, contender: Contender, number: signal.Signals) -> bool:
        """Sends a signal to its dlock, and notes it first. False if it runs none."""
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
        """Between the request for a lock and the start of the command, where the answer
        takes its time."""
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
        """Stops the next dlock of a contender, so long after its start, for too long."""
        before = contender.run
        end = time.monotonic() + 4.0
        while time.monotonic() < end and not self.stops.is_set():
            if contender.run != before and contender.process:
                time.sleep(max(0.0, contender.since + after - time.monotonic()))
                self._hold_still(contender, self.store.ttl + 0.5)
                return
            time.sleep(0.002)

    def _kill(self, dice: random.Random) -> None:
        contender = self._running(dice)
        if contender:
            self.tell(contender, signal.SIGKILL)

    def _tell_to_end(self, dice: random.Random) -> None:
        contender = self._running(dice)
        if contender:
            self.tell(contender, dice.choice((signal.SIGTERM, signal.SIGINT)))

    def _kill_two_in_line(self, _: random.Random) -> None:
        """The holder and the one behind it, who stay away for a while: then those who wait
        have to find out by themselves, and nothing else wakes them."""
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
        """Of the patient ones, once a holder is there and two wait, often right behind a
        hand-over; else nobody."""
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

    # --- What is between them and their locks ---

    def _server_disasters(self) -> list[Disaster]:
        kind = DISASTERS.get(type(self.store))
        return [self._undisturbed(one) for one in kind(self.store, self.fault, self.pause).all()] if kind else []

    def _undisturbed(self, disaster: Disaster) -> Disaster:
        def disturb(dice: random.Random) -> None:
            with self._peace:
                disaster(dice)

        return disturb
