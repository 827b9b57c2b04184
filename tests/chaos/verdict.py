"""Finds what must not happen in a history: functions that turn a Story into complaints, each with
the number of the promise in docs/promises.md that is broken.

A `Fault` that forgets excuses overlaps that no store rules out: see docs/stores.md. Nothing else
is excused, and a run that lost its lock must not report success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from accounts import exit_codes, orphans, overruns, reports
from history import Event, Fault, Run, Story

# On a busy machine, a death may be noticed this much later. dlock has to have a hundred
# milliseconds to spare.
SEEN_LATE = 0.03
# A dying process may release its kernel locks this much after its connection to the witness.
DYING = 0.1
# How long a lock may be free while there is a waiter, beyond the lease of a holder that died: the
# promise to a dead waiter, the interval at which the next waiter checks, and a busy machine.
UNTAKEN = 3.0 + 2.5 + 1.5
# A waiter that arrived this much later has a later position.
IN_LINE = 1.5


def judge(story: Story) -> list[str]:
    return [f"{complaint} ({promise})" for promise, checks in CHECKS.items()
            for check in checks for complaint in check(story)]


def by_lock(story: Story) -> dict[str, list[Run]]:
    """Returns the runs whose commands were seen, in the order in which they entered."""
    locks: dict[str, list[Run]] = {}
    for run in sorted(story.stayed(), key=lambda one: one.entered):
        locks.setdefault(run.lock, []).append(run)
    return locks


def exclude_each_other(one: Run, other: Run) -> bool:
    """False for holders of different slots, and for readers."""
    if one.plan["mode"] == "s" and other.plan["mode"] == "s":
        return False
    return one.stays[0].slot == other.stays[0].slot


def meetings(story: Story) -> Iterator[tuple[Run, Run]]:
    """Yields pairs of runs that overlapped though they exclude each other, the earlier one first."""
    for runs in by_lock(story).values():
        for first, second in combinations(runs, 2):
            if second.entered < first.left(story.over) and exclude_each_other(first, second):
                yield first, second


def strength_at(story: Story, run: Run, moment: float) -> int | None:
    """How many servers of a quorum may forget the lease of a run, according to these servers: less
    than the report says if renewals have not reached one of them for longer than the lease."""
    known = [event["ends"] for event in story.of("lease")
             if event["fence"] == run.fence and event["at"] <= moment and "ends" in event]
    if not known:
        return None
    servers = int(story.start["servers"])
    return sum(end > moment for end in known[-1]) + servers // 2 - servers


def may_be_unknown(story: Story, run: Run, fault: Fault) -> bool:
    """Whether a store may have forgotten that a run has its lock. In a quorum, the run was told
    how many servers may forget it."""
    if fault.servers is None:
        return fault.forgets
    known = [strength for strength in (run.strength, strength_at(story, run, fault.began)) if strength is not None]
    return not known or min(known) < fault.servers


def is_excused(story: Story, run: Run, until: float) -> bool:
    """Whether the store may have granted the lock to another run."""
    return any(fault.forgets and may_be_unknown(story, run, fault) and fault.touches(run.spawned, until)
               for fault in story.faults)


def overlaps(story: Story) -> list[str]:
    """At most one holder, unless the store forgot the first before the second came."""
    return [
        f"overlap: runs {first.id} and {second.id} both held {first.lock} at {second.entered:.3f}"
        f", for {min(first.left(story.over), second.left(story.over)) - second.entered:.3f} s"
        for first, second in meetings(story)
        if not is_excused(story, first, second.entered)
    ]


def kernel_says(story: Story) -> list[str]:
    """The second opinion: the kernel lock was taken when a command asked for it."""
    runs = {run.id: run for run in story.stayed()}

    def is_known(event: Event) -> bool:
        """Whether its holder was one that the store forgot; it may just have ended."""
        came = runs[event["run"]]
        return any(first.entered < event["at"] < first.left(story.over) + DYING
                   and exclude_each_other(first, came) and is_excused(story, first, event["at"])
                   for first in runs.values() if first.lock == came.lock and first is not came)

    return [f"overlap: run {event['run']} found the kernel lock taken at {event['at']:.3f}"
            for event in story.of("not alone") if not is_known(event)]


def slots_in_range(story: Story) -> list[str]:
    return [f"slot: run {run.id} was given slot {stay.slot} of {run.plan['slots']}"
            for run in story.stayed() for stay in run.stays if not 0 <= stay.slot < run.plan["slots"]]


def lease_ends(story: Story) -> dict[int, list[tuple[float, float]]]:
    """Returns for each fence when a server granted or renewed the lease, and until when."""
    ends: dict[int, list[tuple[float, float]]] = {}
    for event in story.of("lease"):
        said = ends.setdefault(event["fence"], [])
        if event["end"] is not None:  # on etcd, there is an event when it has ended
            said.append((event["at"], event["end"]))
    return ends


def lateness(story: Story) -> dict[int, float]:
    """Returns for each run by how long its last process outlived the lease; negative if it did not."""
    ends = lease_ends(story)
    ended = {event["fence"]: event["at"] for event in story.of("lease ended")}
    late = {}
    for run in story.stayed():
        left = run.left(story.over)
        if run.fence in ended:
            late[run.id] = left - ended[run.fence]
            continue
        known = [end for at, end in ends.get(run.fence or 0, []) if at <= left + SEEN_LATE]
        if known:
            late[run.id] = left - max(known)
    return late


def late_deaths(story: Story) -> list[str]:
    late = lateness(story)
    return [f"late: run {run.id} on {run.lock} outlived its lease by {late[run.id]:.3f} s"
            for run in story.stayed()
            if late.get(run.id, -1.0) > SEEN_LATE and not is_excused(story, run, run.left(story.over))]


def unknown_leases(story: Story) -> list[str]:
    """No command has a fence that no server granted."""
    if story.start["store"] == "local":
        return []
    ends = lease_ends(story)
    return [f"unknown: run {run.id} has fence {run.fence}, which no server granted"
            for run in story.stayed()
            if run.fence not in ends
            and not any(fault.contender is None and fault.touches(run.spawned, run.entered) for fault in story.faults)]


def is_etcd(story: Story) -> bool:
    return str(story.start["store"]).startswith("etcd")


def fences(story: Story) -> list[str]:
    """A later grant has a greater fence, whatever was forgotten. On etcd, claims that wait for
    slots have the fences of their positions, in whichever order they notice that they have one."""
    complaints = []
    for runs in by_lock(story).values():
        for first, second in combinations(runs, 2):
            waits_for_slots = is_etcd(story) and second.plan["slots"] > 1
            is_later = first.entered < second.spawned or (
                not waits_for_slots and exclude_each_other(first, second)
                and first.left(story.over) <= second.entered
                # Granted before `first`, and forgotten before its command began.
                and not is_excused(story, second, second.entered))
            if is_later and (first.fence or 0) >= (second.fence or 0):
                complaints.append(f"fence: run {second.id} has {second.fence} on {second.lock}, "
                                  f"run {first.id} before it had {first.fence}")
    return complaints


def is_undisturbed(story: Story, run: Run, start: float, end: float) -> bool:
    if any(start <= event["at"] <= end for event in run.signals):
        return False
    contender = run.id // 1_000_000
    return not any(fault.touches(start, end) and fault.contender in (None, contender) for fault in story.faults)


def order(story: Story) -> list[str]:
    """Waiters are served in the order of their arrival, if there was no fault in between. On etcd,
    the fence says when a claim arrived, which takes long without a leader."""
    complaints = []
    patient = [run for run in story.runs if run.plan["verb"] == "run" and run.lock == "line"]
    for first in patient:
        for second in patient:
            if not second.stays or second.spawned < first.spawned + IN_LINE:
                continue
            if is_etcd(story) and first.stays and (first.fence or 0) > (second.fence or 0):
                continue
            came = first.entered if first.stays else (first.exited or story.over)
            if second.entered < came and is_undisturbed(story, first, first.spawned, second.entered):
                complaints.append(f"order: run {second.id} overtook run {first.id}, which waited "
                                  f"since {first.spawned:.3f}, at {second.entered:.3f}")
    return complaints


def unseen(story: Story) -> dict[str, list[tuple[float, float]]]:
    """Returns for each lock when leases lasted whose commands were not seen: those of a claim that
    had died, or did not receive the reply."""
    seen = {run.fence for run in story.stayed()}
    ended = {event["fence"]: event["at"] for event in story.of("lease ended")}
    spans: dict[str, list[tuple[float, float]]] = {}
    for event in story.of("lease"):
        if event["fence"] not in seen:
            end = ended.get(event["fence"], event["at"]) if event["end"] is None else event["end"]
            spans.setdefault(event["lock"], []).append((event["at"], end))
    return spans


def idle(story: Story) -> list[str]:
    """A free lock is granted to a waiter."""
    complaints = []
    abandoned = unseen(story)
    bound = float(story.start["ttl"]) + UNTAKEN
    holders = by_lock(story)
    for run in story.runs:
        if run.plan["verb"] != "run" or run.plan["wait"] < bound or run.plan["mode"] == "s":
            continue
        until = run.entered if run.stays else (run.exited or story.over)
        if any(fault.forgets_places and fault.touches(run.spawned, until) for fault in story.faults):
            continue  # the store may have forgotten its position, and it sleeps for 45 s
        others = [other for other in story.runs if other.lock == run.lock]
        marks = [run.spawned, until]
        marks += [other.left(story.over) for other in holders.get(run.lock, [])]
        marks += [other.entered for other in holders.get(run.lock, [])]
        marks += [event["at"] for other in others for event in other.signals]
        marks += [at for fault in story.faults for at in (fault.began, fault.ended)]
        marks += [at for span in abandoned.get(run.lock, []) for at in span]
        moments = sorted(mark for mark in marks if run.spawned <= mark <= until)
        for start, end in zip(moments, moments[1:]):
            middle = (start + end) / 2
            is_held = any(other.entered <= middle <= other.left(story.over) for other in holders.get(run.lock, []))
            is_held = is_held or any(began <= middle <= ended for began, ended in abandoned.get(run.lock, []))
            if end - start > bound and not is_held and is_undisturbed(story, run, middle, middle):
                complaints.append(f"idle: {run.lock} was free from {start:.3f} to {end:.3f} while run {run.id} waited")
    return complaints


def untrue_success(story: Story) -> list[str]:
    """If two runs overlap, one of them reports that it has lost its lock, whatever the store promises:
    unless the store forgot the first, which got no reply to its release and goes by the clock."""
    def could_not_know(first: Run, second: Run) -> bool:
        return "cannot release the lock" in first.said and is_excused(story, first, second.entered)

    def succeeded(run: Run) -> bool:
        return run.plan["verb"] == "run" and run.exited is not None and run.code == run.plan["code"]

    complaints = [f"success: runs {first.id} and {second.id} held {first.lock} at the same time, and both "
                  "reported success"
                  for first, second in meetings(story)
                  if succeeded(first) and succeeded(second) and not could_not_know(first, second)]
    late = lateness(story)
    complaints += [f"success: run {run.id} outlived its lease and exited with {run.code}"
                   for run in story.stayed() if succeeded(run) and late.get(run.id, -1.0) > SEEN_LATE
                   and not is_excused(story, run, run.left(story.over))]
    return complaints


def robbed(story: Story) -> list[str]:
    """A holder that could renew its lease does not lose it to another, unless the store forgot it."""
    return [f"robbed: run {run.id} lost {run.lock} ({run.report['reason']}), though the store had not forgotten it"
            for run in story.stayed()
            if run.report and run.report["outcome"] == "lost" and run.exited is not None and not run.signals
            and run.report.get("reason") in ("taken over", "failed over")
            and not any(may_be_unknown(story, run, fault) and fault.touches(run.spawned, run.exited)
                        for fault in story.faults)]


def leftovers(story: Story) -> list[str]:
    return [f"leftover: {event['which']}" for event in story.of("leftover")]


CHECKS: dict[str, tuple[Callable[[Story], list[str]], ...]] = {
    "P1": (overlaps, kernel_says, slots_in_range),
    "P2": (late_deaths,),
    "P4": (robbed,),
    "P5": (fences,),
    "P6": (order, idle),
    "P7": (overruns,),
    "P8": (leftovers, orphans),
    "P9": (unknown_leases,),
    "P12": (untrue_success, exit_codes, reports),
}
