"""The history of a run of chaos: events, stored as lines of JSON, and the story that they tell."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]

# Under this fault, servers end leases at the wrong time, but do not forget waiters.
CLOCK = "clock stepped"


class History:
    """Collects events from all threads. Each event is written to the file immediately, so that
    the file is complete even if the run is killed.

    Times are seconds since the start by the wall clock, because servers use it for their stamps.
    """

    def __init__(self, path: Path) -> None:
        self.began = time.time()
        self.events: list[Event] = []
        self._lock = threading.Lock()
        self._file = path.open("w", encoding="utf-8")

    def now(self) -> float:
        return time.time() - self.began

    def note(self, what: str, at: float | None = None, **more: Any) -> None:
        event = {"at": round(self.now() if at is None else at, 6), "what": what, **more}
        with self._lock:
            self.events.append(event)
            self._file.write(json.dumps(event) + "\n")
            self._file.flush()

    def close(self) -> None:
        self._file.close()


def load(path: Path) -> list[Event]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@dataclass
class Stay:
    """A process of a command, from its greeting to the witness until its death."""

    pid: int
    fence: int
    slot: int
    entered: float
    left: float | None = None

    def end(self, otherwise: float) -> float:
        return otherwise if self.left is None else self.left


@dataclass
class Run:
    """One attempt of a contender. `plan` is a contenders.Plan."""

    id: int
    plan: dict[str, Any]
    spawned: float
    exited: float | None = None
    code: int | None = None  # -N: ended by signal N
    said: str = ""
    report: dict[str, Any] | None = None
    hung: bool = False
    stays: list[Stay] = field(default_factory=list)
    signals: list[Event] = field(default_factory=list)

    @property
    def lock(self) -> str:
        return str(self.plan["lock"])

    @property
    def fence(self) -> int | None:
        return self.stays[0].fence if self.stays else None

    @property
    def strength(self) -> int | None:
        """How many servers may forget its lock; None if that is not known."""
        return self.report.get("strength") if self.report else None

    @property
    def entered(self) -> float:
        return min(stay.entered for stay in self.stays)

    def left(self, otherwise: float) -> float:
        """When its last process was dead."""
        return max(stay.end(otherwise) for stay in self.stays)

    def was_sent(self, *names: str) -> bool:
        return any(event["signal"] in names for event in self.signals)


@dataclass
class Fault:
    """A fault that the nemesis caused, from its beginning until it had healed."""

    name: str
    began: float
    ended: float
    forgets: bool  # the store may grant a lock that is held: it promises nothing then
    contender: int | None = None  # the only contender that it concerned
    servers: int | None = None  # how many servers of a quorum lose their data

    @property
    def forgets_places(self) -> bool:
        """Whether the store may have forgotten waiters."""
        return (self.forgets or self.servers is not None) and self.name != CLOCK

    def touches(self, start: float, end: float) -> bool:
        return self.began <= end and self.ended >= start


@dataclass
class Story:
    """A whole history, in the form that the verdict judges."""

    start: Event
    runs: list[Run]
    faults: list[Fault]
    events: list[Event]
    over: float

    def stayed(self) -> list[Run]:
        return [run for run in self.runs if run.stays]

    def of(self, what: str) -> list[Event]:
        return [event for event in self.events if event["what"] == what]


def story_of(events: list[Event]) -> Story:
    """Combines events into runs and faults. A fault that has not healed lasts until the end."""
    over = max(event["at"] for event in events)
    runs: dict[int, Run] = {}
    faults: dict[int, Fault] = {}
    for event in sorted(events, key=lambda one: one["at"]):
        what = event["what"]
        if what == "spawn":
            runs[event["run"]] = Run(event["run"], event["plan"], event["at"])
        elif what == "exit":
            run = runs[event["run"]]
            run.exited, run.code, run.said = event["at"], event["code"], event["said"]
            run.report, run.hung = event["report"], event["hung"]
        elif what == "enter":
            stay = Stay(event["pid"], event["fence"], event["slot"], event["at"])
            runs[event["run"]].stays.append(stay)
        elif what == "leave":
            for stay in runs[event["run"]].stays:
                if stay.pid == event["pid"]:
                    stay.left = event["at"]
        elif what == "signal" and event["run"] in runs:
            runs[event["run"]].signals.append(event)
        elif what == "fault":
            faults[event["id"]] = Fault(event["name"], event["at"], over, event["forgets"],
                                        event.get("contender"), event.get("servers"))
        elif what == "healed":
            faults[event["id"]].ended = event["at"]
    start = next(event for event in events if event["what"] == "start")
    return Story(start, list(runs.values()), list(faults.values()), events, over)


def operations_of(story: Story) -> list[str]:
    """Returns the history as lines of EDN, each an operation as Jepsen's Knossos reads it: `:acquire`
    from the start of a run until its command began, `:release` from the death of its last process
    until dlock exited. Each slot is a separate lock. A lock with readers is left out, because
    the common models have no readers; and so are runs by verbs that hold nothing."""
    readable = {run.lock for run in story.runs if run.plan["mode"] == "s"}
    lines: list[tuple[float, str]] = []

    def note(at: float, run: Run, kind: str, what: str) -> None:
        stay = run.stays[0] if run.stays else None
        lock = f"{run.lock}#{stay.slot}" if stay else run.lock
        fence = f" :fence {stay.fence}" if stay and (what, kind) != ("acquire", "invoke") else ""
        lines.append((at, f'{{:process {run.id}, :type :{kind}, :f :{what}, :time {round(at * 1e9)}, '
                          f':value {{:lock "{lock}"{fence}}}}}'))

    for run in story.runs:
        if run.lock in readable or run.plan["verb"] not in ("run", "hand"):
            continue
        note(run.spawned, run, "invoke", "acquire")
        exited = story.over if run.exited is None else run.exited
        if not run.stays:
            note(exited, run, "fail", "acquire")
            continue
        note(run.entered, run, "ok", "acquire")
        left = run.left(story.over)
        note(left, run, "invoke", "release")
        # Of a run that was killed, it is not known when its lease ended.
        note(max(left, exited), run, "ok" if (run.code or 0) >= 0 else "info", "release")
    # Operations of one moment keep their order.
    return [line for _, line in sorted(lines, key=lambda one: one[0])]
