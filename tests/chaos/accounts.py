"""Checks whether the exit code and the report of each run agree with the history."""

from __future__ import annotations

from history import Run, Story

BUSY = 2.5  # seconds that a loaded machine may take to start and to end a program
# Seconds after which a command has to be dead if its dlock was killed.
UNGUARDED = 1.0
SIGNALS = {"TERM": 15, "INT": 2, "KILL": 9}
# The exit codes of outcomes in reports.
CODE_OF = {"lost": 76, "busy": 75, "superseded": 75, "unavailable": 69, "timeout": 124}


def stopped_for(run: Run, until: float) -> float:
    """Returns for how long the nemesis stopped a process of the run."""
    total, since = 0.0, None
    for event in run.signals:
        if event["signal"] == "STOP" and since is None:
            since = event["at"]
        elif event["signal"] == "CONT" and since is not None:
            total += event["at"] - since
            since = None
    return total + (until - since if since is not None else 0.0)


def orphans(story: Story) -> list[str]:
    """No process of a command outlives its dlock. Exception: a lock on `local:` is held for
    as long as the command lives, so the command of a killed dlock is not ended."""
    complaints = []
    for run in story.stayed():
        if run.exited is None or run.plan["verb"] != "run":
            continue
        was_killed = run.was_sent("KILL")
        if was_killed and story.start["store"] == "local":
            continue
        after = run.left(story.over) - run.exited
        if after > (UNGUARDED if was_killed else 0.0) + 0.5:
            complaints.append(f"orphan: a process of run {run.id} outlived its dlock by {after:.3f} s")
    return complaints


def overruns(story: Story) -> list[str]:
    """No wait is longer than requested by more than two operations on the store."""
    complaints = []
    for run in story.runs:
        if run.hung:
            complaints.append(f"hang: run {run.id} ({run.plan['verb']}) did not end")
        if run.plan["verb"] == "hand":
            continue
        waited_until = run.entered if run.stays else run.exited
        if waited_until is None and not story.of("over"):
            continue
        if waited_until is None:
            complaints.append(f"hang: run {run.id} has not ended")
            continue
        waited = waited_until - run.spawned - stopped_for(run, waited_until)
        allowed = run.plan["wait"] + 2 * story.start["store_timeout"] + BUSY
        if run.plan["verb"] == "break":
            allowed += run.plan["ttl"]
        if waited > allowed and not run.hung:
            complaints.append(f"wait: run {run.id} waited for {waited:.3f} s, at most {allowed:.1f} s are allowed")
    return complaints


def allowed_codes(run: Run) -> set[int]:
    by_verb = {"hand": {0, 69, 75, 76}, "break": {0, 1, 69}, "status": {0, 1, 69}, "list": {0, 69}}
    codes = set(by_verb.get(run.plan["verb"], {69, 75, 76}))
    for event in run.signals:
        if event.get("to") == "guardian":
            codes |= {70, 125}  # it was killed, or had to be, with the command or before the command began
        if event["signal"] not in SIGNALS:
            continue
        codes.add(-SIGNALS[event["signal"]])
        codes.add(-SIGNALS["KILL"])  # for a command that ignores the other signals, after --kill-after
    if run.plan["verb"] == "run" and run.stays:
        codes.add(run.plan["code"])
        codes.discard(75)
        codes.discard(69)
    if run.plan["verb"] == "run" and run.plan["timeout"]:
        codes.add(124)  # its command may not have greeted the witness by then
    return codes


def exit_codes(story: Story) -> list[str]:
    return [f"code: run {run.id} ({run.plan['verb']} {run.lock}) exited with {run.code}"
            f"{'' if run.stays else ', its command did not run'}: {run.said.strip()[-200:]}"
            for run in story.runs
            if run.exited is not None and not run.hung and run.code not in allowed_codes(run)]


def complaint_of(run: Run) -> str | None:
    """Returns an error in the report of a run, or None."""
    report = run.report
    if report is None:
        return "there is none"
    outcome, seen = report["outcome"], bool(run.stays)
    if outcome in CODE_OF and run.code != CODE_OF[outcome]:
        return f"{outcome}, but the code is {run.code}"
    if run.code in (69, 75, 76, 124) and outcome not in CODE_OF:
        return f"{outcome}, but the code is {run.code}"
    # A command that was killed by a signal may not have greeted the witness.
    if outcome == "ran" and not seen and report["signal"] is None:
        return "ran, but no process of it was seen"
    if outcome in ("busy", "superseded", "unavailable", "interrupted") and seen:
        return f"{outcome}, but it was seen to run"
    if seen and report["fence"] != run.fence:
        return f"fence {report['fence']}, but its command had {run.fence}"
    if outcome == "lost" and report["protected"]:
        return "lost, and protected"
    # A release without a reply is excluded by P12.
    is_known = "cannot release the lock" not in run.said
    if outcome == "ran" and run.code == run.plan["code"] and not report["protected"] and is_known:
        return "a success without protection"
    return None


def reports(story: Story) -> list[str]:
    complaints = []
    for run in story.runs:
        # A dlock that was killed, or ended by a signal before it began, cannot write a report.
        if run.plan["verb"] != "run" or run.exited is None or run.hung or run.code == -9:
            continue
        complaint = complaint_of(run)
        if complaint:
            complaints.append(f"report: of run {run.id}: {complaint}")
    return complaints
