"""Contenders: each asks for a lock repeatedly, with verbs and options that a seed chooses."""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from history import History
from witness import Witness

HANG = 20.0  # seconds after the latest end of a run: it hangs, and is killed


@dataclass(frozen=True)
class Plan:
    """One attempt. Times are in seconds."""

    verb: str
    lock: str
    mode: str = "x"
    slots: int = 1
    ttl: float = 3.0
    wait: float = 0.0
    hold: float = 0.1
    code: int = 0
    family: str = "plain"
    kill_after: float = 0.0
    timeout: float = 0.0
    min_hold: float = 0.0
    stragglers: str = "leave"
    wishes: tuple[str, ...] = ()
    pause: float = 0.0  # before the attempt


@dataclass(frozen=True)
class Seat:
    """The role of a contender: its lock, and the kind of its attempts."""

    lock: str
    kind: str  # mixed, patient, pool, reader, writer, hand, operator, late or eager


# Several locks, because what tests one feature would disturb the test of another.
SEATS = (
    Seat("alone", "mixed"), Seat("alone", "mixed"), Seat("alone", "operator"),
    Seat("line", "patient"), Seat("line", "patient"), Seat("line", "patient"), Seat("line", "patient"),
    Seat("pool", "pool"), Seat("pool", "pool"), Seat("pool", "pool"),
    Seat("pages", "reader"), Seat("pages", "reader"), Seat("pages", "writer"),
    # No contender breaks this lock: no process would tell a script that its lease is lost.
    Seat("desk", "hand"), Seat("desk", "hand"), Seat("desk", "writer"),
)

# A run whose first request can be held back, and one that takes the lock whenever it is free.
DUEL = (Seat("duel", "late"), Seat("duel", "eager"))


def plan_for(seat: Seat, dice: random.Random, ttl: float) -> Plan:
    """Returns the next attempt of a seat. It depends only on the dice, so that a seed repeats it."""
    hold = dice.choice((0.02, 0.1, 0.3, 0.3, 1.0, 2 * ttl))
    common = {
        "ttl": ttl, "hold": hold, "code": dice.choice((0, 0, 3)),
        "family": dice.choice(("plain", "stubborn", "tree")),
        "kill_after": dice.choice((0.0, 0.0, 0.2, 5.0)),
        "pause": dice.choice((0.0, 0.05, 0.3)),
        "wait": dice.choice((0.0, 0.5, 3.0, 12.0)),
        "stragglers": dice.choice(("wait", "kill")),
    }
    wishes: tuple[str, ...] = ()
    if seat.kind == "operator":
        verb = dice.choice(("break", "status", "list", "status"))
        return Plan(verb, seat.lock, ttl=ttl, pause=dice.choice((0.5, 1.5, 4.0)))
    if seat.kind == "hand":
        return Plan("hand", seat.lock, ttl=ttl, hold=dice.choice((0.02, 0.2)), wait=common["wait"], pause=0.3)
    if seat.kind == "patient":
        return Plan("run", seat.lock, ttl=ttl, wait=60.0, family="stubborn", pause=0.1,
                    hold=dice.choice((0.02, 0.3, 1.0, 2 * ttl)))
    if seat.kind == "late":  # its command ends before its lease is renewed
        return Plan("run", seat.lock, ttl=ttl, wait=2 * ttl, hold=ttl / 5, pause=common["pause"])
    if seat.kind == "eager":
        return Plan("run", seat.lock, ttl=ttl, hold=0.02, pause=0.05)
    if seat.kind == "pool":
        return Plan("run", seat.lock, slots=2, **common)
    if seat.kind == "reader":
        return Plan("run", seat.lock, mode="s", **common)
    if seat.kind == "mixed":
        if dice.random() < 0.2 and common["wait"]:
            wishes = (dice.choice(("--supersede", "--replace", "--max-queue=2")),)
        common["min_hold"] = dice.choice((0.0, 0.0, 0.0, 0.4))
        common["timeout"] = dice.choice((0.0, 0.0, 0.0, 0.5))
    return Plan("run", seat.lock, wishes=wishes, **common)


def words_of(plan: Plan) -> list[str]:
    """Returns the options of dlock for a plan."""
    words = [f"--ttl={plan.ttl:g}s"]
    if plan.slots > 1:
        words.append(f"--slots={plan.slots}")
    if plan.mode == "s":
        words.append("--shared")
    if plan.wait:
        words.append(f"--wait={plan.wait:g}s")
    if plan.verb == "run":
        words += [f"--kill-after={plan.kill_after:g}s", f"--stragglers={plan.stragglers}"]
        if plan.timeout:
            words.append(f"--timeout={plan.timeout:g}s")
        if plan.min_hold:
            words.append(f"--min-hold={plan.min_hold:g}s")
    return [*words, *plan.wishes]


def longest(plan: Plan) -> float:
    """Returns after how many seconds it has to be over if its processes are not stopped."""
    return plan.wait + plan.hold + plan.ttl + 2 * plan.kill_after + HANG


@dataclass
class Outcome:
    code: int
    said: str
    out: str
    hung: bool


class Contender:
    """A thread that carries out the plans of a seat until the world stops."""

    def __init__(self, number: int, seat: Seat, world: World) -> None:
        self.number = number
        self.seat = seat
        self.process: subprocess.Popen[bytes] | None = None  # the dlock that it runs at the moment
        self.run = 0
        self.since = 0.0  # when it was started
        self.rests = 0.0  # seconds of rest after the current run, because it was killed
        self.world = world
        self._thread = threading.Thread(target=self._contend, name=f"contender {number}")

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def kill(self) -> None:
        """Kills its dlock, if it still runs one."""
        if self.process:
            self.process.kill()
        if self._thread.is_alive():
            self._thread.join()

    def _contend(self) -> None:
        try:
            self._attempts()
        except Exception as error:  # a defect here must not look like a run without complaints
            self.world.failure = f"contender {self.number}: {error!r}"

    def _attempts(self) -> None:
        attempt = 0
        while not self.world.stops.is_set():
            dice = random.Random(f"{self.world.seed}/{self.number}/{attempt}")
            plan = plan_for(self.seat, dice, self.world.ttl)
            if self.world.stops.wait(plan.pause + self.rests):
                return
            self.rests = 0.0
            attempt += 1
            self._carry_out(plan, self.number * 1_000_000 + attempt)

    def _carry_out(self, plan: Plan, run: int) -> None:
        world = self.world
        world.history.note("spawn", run=run, contender=self.number, plan=asdict(plan))
        report = world.root / f"report.{run}"
        if plan.verb == "hand":
            outcome = self._by_hand(plan, run)
        elif plan.verb == "run":
            words = ["run", *words_of(plan), f"--report={report}", plan.lock, "--", *world.section(plan, run)]
            outcome = self._dlock(words, run, longest(plan))
        else:
            words = {"break": ["break", "--yes", plan.lock], "status": ["status", "--json", plan.lock],
                     "list": ["list", "--json"]}[plan.verb]
            outcome = self._dlock(words, run, plan.ttl + HANG)
        document = None
        if report.exists():
            text = report.read_text()
            document = json.loads(text) if text else None  # empty if its dlock was killed
            report.unlink()
        world.history.note("exit", run=run, code=outcome.code, said=outcome.said[-400:],
                           report=document, hung=outcome.hung)

    def _by_hand(self, plan: Plan, run: int) -> Outcome:
        """Acts as a script: acquires the lock, runs a command that ends in time, releases the lock."""
        taken = self._dlock(["acquire", "--json", *words_of(plan), plan.lock], run, longest(plan))
        if taken.code != 0 or taken.hung:
            return taken
        lease = json.loads(taken.out)
        token = {"DLOCK_TOKEN": lease["token"]}
        latest = time.monotonic() + plan.ttl * 0.8
        self._dlock(["renew", plan.lock, f"--ttl={plan.ttl:g}s"], run, HANG, token)
        checked = self._dlock(["check", plan.lock, f"--fence={lease['fence']}",
                               f"--min-validity={plan.ttl / 2:g}s"], run, HANG, token)
        latest = min(latest, time.monotonic() + plan.ttl / 2 - 0.1)
        if checked.code == 0 and time.monotonic() < latest - plan.hold:
            environment = {**self.world.environment, "DLOCK_FENCE": str(lease["fence"])}
            command = [*self.world.section(plan, run), str(latest)]
            subprocess.run(command, env=environment, check=False, stdin=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        return self._dlock(["release", plan.lock], run, HANG, token)

    def _dlock(self, words: list[str], run: int, seconds: float,
               more: dict[str, str] | None = None) -> Outcome:
        world = self.world
        command = [world.dlock, *words[:1], "--store", world.url(self.number), *world.options, *words[1:]]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env={**world.environment, **(more or {})},
                              start_new_session=True) as process:
            self.run, self.since, self.process = run, time.monotonic(), process
            out, said = bytearray(), bytearray()
            hung = not _drain(process, {process.stdout: out, process.stderr: said}, seconds)
            self.process = None
            if hung:
                process.kill()
            code = process.wait()
        return Outcome(code, said.decode("utf-8", "replace"), out.decode("utf-8", "replace"), hung)


def _drain(process: subprocess.Popen[bytes], outputs: dict, seconds: float) -> bool:  # type: ignore[type-arg]
    """Reads the output of a process until it has ended. Returns False if it has not ended in
    time. Does not wait for processes that it left behind, which may keep the pipes open."""
    ended = os.pidfd_open(process.pid)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    by_number = {pipe.fileno(): text for pipe, text in outputs.items()}
    for number in by_number:
        os.set_blocking(number, False)
        poll.register(number, select.POLLIN)
    end = time.monotonic() + seconds
    is_over = False
    while not is_over and time.monotonic() < end:
        ready = poll.poll(max(1.0, (end - time.monotonic()) * 1000))
        is_over = any(number == ended for number, _ in ready)
        for number, text in by_number.items():
            try:
                received = os.read(number, 65536)
            except BlockingIOError:
                continue
            text += received
            if not received and any(number == one for one, _ in ready):
                poll.unregister(number)
    os.close(ended)
    return is_over


class World:
    """What all contenders share."""

    def __init__(self, root: Path, dlock: str, seed: int, ttl: float, options: list[str],
                 history: History, witness: Witness) -> None:
        self.root = root
        self.dlock = dlock
        self.seed = seed
        self.ttl = ttl
        self.options = options
        self.history = history
        self.witness = witness
        self.stops = threading.Event()
        self.failure: str | None = None
        self.urls: list[str] = []  # one for all contenders, or one for each
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(root), "LC_ALL": "C"}

    def url(self, contender: int) -> str:
        return self.urls[contender % len(self.urls)]

    def section(self, plan: Plan, run: int) -> list[str]:
        name = f"{plan.lock}.{{slot}}" if plan.slots > 1 else plan.lock
        flock = str(self.root / f"flock.{name}") + (":shared" if plan.mode == "s" else "")
        return [sys.executable, "-I", "-S", str(Path(__file__).parent / "section.py"), str(self.witness.path),
                flock, str(run), str(plan.hold), str(plan.code), plan.family]
